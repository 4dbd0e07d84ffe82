/* SPDX-License-Identifier: Apache-2.0
 * TracedFunction: runs a function inside a span without adding a Python frame, so tracebacks, warnings' stack levels
 * and debuggers of the host show what they showed before. Every attribute but __wrapped__ is the wrapped function's. */
#include "extension.h"

typedef struct {
  PyObject ob_base;
  stepscope_name name;
  PyObject* function;
  PyObject* method_type;
} TracedFunction;

PyObject* traced_function_new(ModuleState* state, PyObject* function, stepscope_name name) {
  PyTypeObject* type = (PyTypeObject*)state->traced_type;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  TracedFunction* self = (TracedFunction*)allocate(type, 0);
  if (self == NULL) return NULL;
  self->name = name;
  Py_INCREF(function);
  self->function = function;
  Py_INCREF(state->method_type);
  self->method_type = state->method_type;
  return (PyObject*)self;
}

static PyObject* traced_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  TracedFunction* traced = (TracedFunction*)self;
  before_recording();
  stepscope_begin(traced->name);
  PyObject* result = PyObject_Call(traced->function, args, kwargs);
  stepscope_end_named(traced->name);
  return result;
}

static PyObject* traced_bind(PyObject* self, PyObject* instance, PyObject* owner) {
  (void)owner;
  if (instance == NULL || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyObject_CallFunctionObjArgs(((TracedFunction*)self)->method_type, self, instance, NULL);
}

static PyObject* traced_getattr(PyObject* self, PyObject* attribute) {
  if (PyUnicode_CompareWithASCIIString(attribute, "__wrapped__") == 0) return PyObject_GenericGetAttr(self, attribute);
  if (PyUnicode_CompareWithASCIIString(attribute, "__class__") == 0) return PyObject_GenericGetAttr(self, attribute);
  return PyObject_GetAttr(((TracedFunction*)self)->function, attribute);
}

static int traced_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(((TracedFunction*)self)->function);
  Py_VISIT(((TracedFunction*)self)->method_type);
  Py_VISIT(Py_TYPE(self));
  return 0;
}

static int traced_clear(PyObject* self) {
  Py_CLEAR(((TracedFunction*)self)->function);
  Py_CLEAR(((TracedFunction*)self)->method_type);
  return 0;
}

static void traced_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  traced_clear(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyMemberDef traced_members[] = {
    {"__wrapped__", T_OBJECT, offsetof(TracedFunction, function), READONLY, "The function itself."}, {NULL, 0, 0, 0, NULL}};

static PyType_Slot traced_slots[] = {{Py_tp_doc, "A function that runs inside a span."},
                                     {Py_tp_dealloc, traced_dealloc},
                                     {Py_tp_traverse, traced_traverse},
                                     {Py_tp_clear, traced_clear},
                                     {Py_tp_call, traced_call},
                                     {Py_tp_descr_get, traced_bind},
                                     {Py_tp_getattro, traced_getattr},
                                     {Py_tp_members, traced_members},
                                     {0, NULL}};

PyType_Spec traced_function_spec = {.name = "stepscope._agent.TracedFunction",
                                    .basicsize = sizeof(TracedFunction),
                                    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                    .slots = traced_slots};
