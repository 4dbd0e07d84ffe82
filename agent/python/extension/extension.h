/* SPDX-License-Identifier: Apache-2.0
 * Shared by the files of the `_agent` extension, the thin layer between Python and the agent's C API
 * (stepscope/stepscope.h). Limited API of CPython 3.10, so one binary serves 3.10 and later. Nothing here raises after
 * construction: a call that cannot record does nothing. All state lives in the module object; the GIL guards it. */
#ifndef STEPSCOPE_AGENT_PYTHON_EXTENSION_H_
#define STEPSCOPE_AGENT_PYTHON_EXTENSION_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "stepscope/stepscope.h"

/* `known` keeps the annotation of each name seen, so that annotate("forward") in a loop costs one dictionary look-up;
 * names with a running number would fill it without end, hence the bounds. */
enum { kKnownNamesMax = 4096, kKnownNameMaxChars = 256 };

typedef struct {
  PyObject* annotation_type;
  PyObject* traced_type;
  PyObject* method_type; /* types.MethodType: binding is not in the limited API */
  PyObject* known;       /* dict: exact str -> Annotation in the user domain */
} ModuleState;

/* What `with` enters: holds nothing but the name, so one object may be nested, shared by threads and used again. */
typedef struct {
  PyObject ob_base;
  stepscope_name name;
  PyObject* text;
} Annotation;

extern PyType_Spec annotation_spec;
extern PyType_Spec traced_function_spec;

/* Interns `text`. Any str is accepted: lone surrogates and overlong text are repaired by the agent. -1 with an
 * exception set: not a str, or no memory. */
int name_from_text(PyObject* text, int domain, stepscope_name* name);

/* New reference, NULL with an exception set. The second form returns the known object of that name if there is one. */
PyObject* annotation_new(ModuleState* state, PyObject* text, stepscope_name name);
PyObject* annotation_for_text(ModuleState* state, PyObject* text);

/* New reference: a callable that runs `function` inside the span `name`. */
PyObject* traced_function_new(ModuleState* state, PyObject* function, stepscope_name name);

/* Every call that records starts with this: it tells the agent which memory holds the interpreter's GIL, where that is known.
 * A child process has a session of its own and tells again. Not at import: a process that records nothing opens no session.
 * The flag is the process's, not the module's: all interpreters in it share the memory. */
extern int gil_range_published;
void publish_gil_range(void);
void watch_forks_for_gil_range(void);
static inline void before_recording(void) {
  if (!gil_range_published) publish_gil_range();
}

#endif /* STEPSCOPE_AGENT_PYTHON_EXTENSION_H_ */
