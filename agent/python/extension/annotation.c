/* SPDX-License-Identifier: Apache-2.0
 * The Annotation type: context manager and decorator around one interned name. Entering and leaving allocate nothing of
 * ours and cannot fail. */
#include "extension.h"

static PyObject* annotation_enter(PyObject* self, PyObject* unused) {
  (void)unused;
  before_recording();
  stepscope_begin(((Annotation*)self)->name);
  Py_INCREF(self);
  return self;
}

/* By name: a generator or coroutine suspended inside `with` may leave after spans opened later, or on another thread.
 * Then the agent flags what it closes along, or ignores the call; a plain end would silently close somebody else's
 * span. */
static PyObject* annotation_exit(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)args;
  (void)count;
  stepscope_end_named(((Annotation*)self)->name);
  Py_RETURN_NONE;
}

/* annotation(function): used as a decorator. Kept in Python, it runs once per function. */
static PyObject* annotation_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* function = NULL;
  static char* keywords[] = {"function", NULL};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", keywords, &function)) return NULL;
  PyObject* decorate = PyObject_GetAttrString((PyObject*)Py_TYPE(self), "_decorate");
  if (decorate == NULL) return NULL;
  PyObject* wrapped = PyObject_CallFunctionObjArgs(decorate, self, function, NULL);
  Py_DECREF(decorate);
  return wrapped;
}

static PyObject* annotation_repr(PyObject* self) {
  return PyUnicode_FromFormat("stepscope.annotate(%R)", ((Annotation*)self)->text);
}

static PyObject* annotation_get_name(PyObject* self, void* unused) {
  (void)unused;
  PyObject* text = ((Annotation*)self)->text;
  Py_INCREF(text);
  return text;
}

/* Pickles and copies by name: the interned id means nothing in another process. */
static PyObject* annotation_reduce(PyObject* self, PyObject* unused) {
  (void)unused;
  PyObject* rebuild = PyObject_GetAttrString((PyObject*)Py_TYPE(self), "_rebuild");
  if (rebuild == NULL) return NULL;
  return Py_BuildValue("N(O)", rebuild, ((Annotation*)self)->text);
}

/* No Py_tp_traverse: the one object held is a str, so an annotation can be in no cycle. */
static void annotation_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(((Annotation*)self)->text);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

PyObject* annotation_new(ModuleState* state, PyObject* text, stepscope_name name) {
  PyTypeObject* type = (PyTypeObject*)state->annotation_type;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Annotation* self = (Annotation*)allocate(type, 0);
  if (self == NULL) return NULL;
  self->name = name;
  Py_INCREF(text);
  self->text = text;
  return (PyObject*)self;
}

PyObject* annotation_for_text(ModuleState* state, PyObject* text) {
  int may_keep = PyUnicode_CheckExact(text);
  if (may_keep) {
    PyObject* known = PyDict_GetItemWithError(state->known, text);
    if (known != NULL) {
      Py_INCREF(known);
      return known;
    }
    if (PyErr_Occurred()) return NULL;
  }
  stepscope_name name;
  if (name_from_text(text, STEPSCOPE_DOMAIN_USER, &name) < 0) return NULL;
  PyObject* annotation = annotation_new(state, text, name);
  if (annotation == NULL) return NULL;
  if (may_keep && PyDict_Size(state->known) < kKnownNamesMax && PyUnicode_GetLength(text) <= kKnownNameMaxChars) {
    if (PyDict_SetItem(state->known, text, annotation) < 0) PyErr_Clear();
  }
  return annotation;
}

static PyMethodDef annotation_methods[] = {
    {"__enter__", annotation_enter, METH_NOARGS, "Opens the span on the calling thread."},
    {"__exit__", (PyCFunction)(void (*)(void))annotation_exit, METH_FASTCALL, "Closes it; never swallows an exception."},
    {"__reduce__", annotation_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef annotation_getset[] = {{"name", annotation_get_name, NULL, "The text given at construction.", NULL},
                                          {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot annotation_slots[] = {
    {Py_tp_doc,
     "A named span: `with` opens and closes it, calling it with a function decorates that function. Reusable, "
     "nestable, safe to share between threads. Made by stepscope.annotate(name)."},
    {Py_tp_dealloc, annotation_dealloc},
    {Py_tp_call, annotation_call},
    {Py_tp_repr, annotation_repr},
    {Py_tp_methods, annotation_methods},
    {Py_tp_getset, annotation_getset},
    {0, NULL}};

PyType_Spec annotation_spec = {.name = "stepscope._agent.Annotation",
                               .basicsize = sizeof(Annotation),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               .slots = annotation_slots};
