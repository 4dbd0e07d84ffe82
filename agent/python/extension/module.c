/* SPDX-License-Identifier: Apache-2.0
 * Module `stepscope._agent`: the functions the package is made of. Names given as str are looked up among the known
 * annotations, so repeated calls intern nothing. */
#include "extension.h"

static ModuleState* state_of(PyObject* module) { return (ModuleState*)PyModule_GetState(module); }

static int check_count(Py_ssize_t given, Py_ssize_t wanted, const char* signature) {
  if (given == wanted) return 0;
  PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", signature, wanted, given);
  return -1;
}

/* The interned user-domain name of args[0]. */
static int user_name(PyObject* module, PyObject* text, stepscope_name* name) {
  PyObject* annotation = annotation_for_text(state_of(module), text);
  if (annotation == NULL) return -1;
  *name = ((Annotation*)annotation)->name;
  Py_DECREF(annotation);
  return 0;
}

static PyObject* agent_annotate(PyObject* module, PyObject* text) { return annotation_for_text(state_of(module), text); }

/* int -> split-off number; one too big for 64 bits leaves the name without a number. */
static int set_number(PyObject* value, stepscope_name* name) {
  if (value == Py_None) return 0;
  PyObject* index = PyNumber_Index(value);
  if (index == NULL) return -1;
  int overflow = 0;
  long long number = PyLong_AsLongLongAndOverflow(index, &overflow);
  Py_DECREF(index);
  if (number == -1 && PyErr_Occurred()) return -1;
  name->has_number = overflow == 0;
  name->number = overflow == 0 ? number : 0;
  return 0;
}

/* span(name, domain, number or None): an annotation of any domain, its number given apart. */
static PyObject* agent_span(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  if (check_count(count, 3, "span(name, domain, number)") < 0) return NULL;
  long domain = PyLong_AsLong(args[1]);
  if (domain == -1 && PyErr_Occurred()) return NULL;
  stepscope_name name;
  if (name_from_text(args[0], (int)domain, &name) < 0) return NULL;
  if (set_number(args[2], &name) < 0) return NULL;
  return annotation_new(state_of(module), args[0], name);
}

/* traced(function, name, domain) */
static PyObject* agent_traced(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  if (check_count(count, 3, "traced(function, name, domain)") < 0) return NULL;
  long domain = PyLong_AsLong(args[2]);
  if (domain == -1 && PyErr_Occurred()) return NULL;
  stepscope_name name;
  if (name_from_text(args[1], (int)domain, &name) < 0) return NULL;
  return traced_function_new(state_of(module), args[0], name);
}

/* begin(name) or begin(annotation) -> token */
static PyObject* agent_begin(PyObject* module, PyObject* what) {
  before_recording();
  if ((PyObject*)Py_TYPE(what) == state_of(module)->annotation_type) {
    return PyLong_FromUnsignedLongLong(stepscope_token_begin(((Annotation*)what)->name));
  }
  stepscope_name name;
  if (user_name(module, what, &name) < 0) return NULL;
  return PyLong_FromUnsignedLongLong(stepscope_token_begin(name));
}

static PyObject* agent_end(PyObject* module, PyObject* token) {
  (void)module;
  if (token == Py_None) Py_RETURN_NONE;
  unsigned long long value = PyLong_AsUnsignedLongLongMask(token);
  if (PyErr_Occurred()) {
    PyErr_Format(PyExc_TypeError, "end() takes the token that begin() returned, not %R", (PyObject*)Py_TYPE(token));
    return NULL;
  }
  if (value != 0) stepscope_token_end(value);
  Py_RETURN_NONE;
}

static PyObject* agent_mark(PyObject* module, PyObject* text) {
  stepscope_name name;
  if (user_name(module, text, &name) < 0) return NULL;
  before_recording();
  stepscope_mark(name);
  Py_RETURN_NONE;
}

/* A value that fails to become a float on its own (a tensor of two elements, an int beyond the range) is not worth the
 * training loop: it is left out. A value of the wrong type is a programming error and says so. */
static PyObject* agent_counter(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  if (check_count(count, 2, "counter(name, value)") < 0) return NULL;
  stepscope_name name;
  if (user_name(module, args[0], &name) < 0) return NULL;
  double value = PyFloat_AsDouble(args[1]);
  if (value == -1.0 && PyErr_Occurred()) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) || !PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
    PyErr_Clear();
    Py_RETURN_NONE;
  }
  before_recording();
  stepscope_counter(name, value);
  Py_RETURN_NONE;
}

/* info(key, value): both str */
static PyObject* agent_info(PyObject* module, PyObject* const* args, Py_ssize_t count) {
  if (check_count(count, 2, "info(key, value)") < 0) return NULL;
  stepscope_name key;
  if (user_name(module, args[0], &key) < 0) return NULL;
  PyObject* encoded = PyUnicode_AsEncodedString(args[1], "utf-8", "surrogatepass");
  if (encoded == NULL) return NULL;
  before_recording();
  stepscope_info(key, PyBytes_AsString(encoded), (size_t)PyBytes_Size(encoded));
  Py_DECREF(encoded);
  Py_RETURN_NONE;
}

static PyObject* agent_start(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  before_recording();
  stepscope_start();
  Py_RETURN_NONE;
}

static PyObject* agent_stop(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  stepscope_stop();
  Py_RETURN_NONE;
}

static PyObject* agent_state(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  const char* text = stepscope_state();
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

static PyObject* agent_lost(PyObject* module, PyObject* unused) {
  (void)module;
  (void)unused;
  return PyLong_FromUnsignedLongLong(stepscope_lost());
}

static PyObject* agent_flush(PyObject* module, PyObject* timeout_ms) {
  (void)module;
  long wait_ms = PyLong_AsLong(timeout_ms);
  if (wait_ms == -1 && PyErr_Occurred()) return NULL;
  int stored = 0;
  Py_BEGIN_ALLOW_THREADS stored = stepscope_flush((int)wait_ms);
  Py_END_ALLOW_THREADS return PyBool_FromLong(stored);
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL
static PyMethodDef methods[] = {
    {"annotate", agent_annotate, METH_O,
     "annotate(name)\n--\n\nA span called `name`: use it in `with`, or as a decorator. May be kept, nested and shared "
     "by threads."},
    {"begin", agent_begin, METH_O,
     "begin(name)\n--\n\nOpens a span that may overlap others; returns a token that any thread may end()."},
    {"end", agent_end, METH_O, "end(token)\n--\n\nCloses the span of `token`. A second end, None and 0 are ignored."},
    {"mark", agent_mark, METH_O, "mark(name)\n--\n\nA named instant."},
    {"counter", FAST(agent_counter), "counter(name, value, /)\n--\n\nA value over time."},
    {"info", FAST(agent_info), NULL},
    {"span", FAST(agent_span), NULL},
    {"traced", FAST(agent_traced), NULL},
    {"start", agent_start, METH_NOARGS,
     "start()\n--\n\nOpens a window: views show the union of windows. Recording is always on."},
    {"stop", agent_stop, METH_NOARGS, "stop()\n--\n\nCloses the window opened by start()."},
    {"state", agent_state, METH_NOARGS,
     "state()\n--\n\n'recording', or why not, such as 'off: no daemon at /run/stepscope/agent.sock'."},
    {"lost", agent_lost, METH_NOARGS, "lost()\n--\n\nRecords this process had to drop so far."},
    {"flush", agent_flush, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

static int add_type(PyObject* module, PyType_Spec* spec, PyObject** kept) {
  *kept = PyType_FromModuleAndSpec(module, spec, NULL);
  return *kept == NULL ? -1 : PyModule_AddType(module, (PyTypeObject*)*kept);
}

static int module_exec(PyObject* module) {
  watch_forks_for_gil_range();
  ModuleState* state = state_of(module);
  if (add_type(module, &annotation_spec, &state->annotation_type) < 0) return -1;
  if (add_type(module, &traced_function_spec, &state->traced_type) < 0) return -1;
  PyObject* types = PyImport_ImportModule("types");
  if (types == NULL) return -1;
  state->method_type = PyObject_GetAttrString(types, "MethodType");
  Py_DECREF(types);
  state->known = PyDict_New();
  return state->method_type == NULL || state->known == NULL ? -1 : 0;
}

static int module_traverse(PyObject* module, visitproc visit, void* arg) {
  ModuleState* state = state_of(module);
  Py_VISIT(state->annotation_type);
  Py_VISIT(state->traced_type);
  Py_VISIT(state->method_type);
  Py_VISIT(state->known);
  return 0;
}

static int module_clear(PyObject* module) {
  ModuleState* state = state_of(module);
  Py_CLEAR(state->annotation_type);
  Py_CLEAR(state->traced_type);
  Py_CLEAR(state->method_type);
  Py_CLEAR(state->known);
  return 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};

static struct PyModuleDef module_definition = {PyModuleDef_HEAD_INIT,
                                               .m_name = "stepscope._agent",
                                               .m_doc = "Binding to libstepscope_agent.so; use the package `stepscope`.",
                                               .m_size = sizeof(ModuleState),
                                               .m_methods = methods,
                                               .m_slots = module_slots,
                                               .m_traverse = module_traverse,
                                               .m_clear = module_clear};

PyMODINIT_FUNC PyInit__agent(void) { return PyModuleDef_Init(&module_definition); }
