/* SPDX-License-Identifier: Apache-2.0
 * From a Python str to an interned name of the agent. */
#include "extension.h"

int name_from_text(PyObject* text, int domain, stepscope_name* name) {
  if (!PyUnicode_Check(text)) {
    PyErr_Format(PyExc_TypeError, "a stepscope name must be a str, not %R; wrap it in str()", (PyObject*)Py_TYPE(text));
    return -1;
  }
  Py_ssize_t bytes = 0;
  const char* utf8 = PyUnicode_AsUTF8AndSize(text, &bytes);
  if (utf8 != NULL) {
    *name = stepscope_intern(utf8, (size_t)bytes, domain);
    return 0;
  }
  if (!PyErr_ExceptionMatches(PyExc_UnicodeError)) return -1;
  PyErr_Clear();
  PyObject* encoded = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
  if (encoded == NULL) return -1;
  *name = stepscope_intern(PyBytes_AsString(encoded), (size_t)PyBytes_Size(encoded), domain);
  Py_DECREF(encoded);
  return 0;
}
