/* The structures of an interpreter like CPython 3.11, with other offsets, and with what makes
   reading them hard: declarations before definitions, members without a name, types of types. */

#include <stdint.h>

typedef struct _ts PyThreadState;
typedef struct _is PyInterpreterState;
typedef struct _typeobject PyTypeObject;
typedef int64_t Py_ssize_t;

typedef struct _object {
    void *before[2];
    union {
        Py_ssize_t ob_refcnt;
        uint32_t halves[2];
    };
    PyTypeObject *ob_type;
} PyObject;

typedef struct {
    PyObject ob_base;
    Py_ssize_t ob_size;
} PyVarObject;

struct _typeobject {
    PyVarObject ob_base;
    const char *tp_name;
    Py_ssize_t tp_basicsize;
    char unused[200];
    Py_ssize_t tp_dictoffset;
};

typedef struct {
    PyTypeObject ht_type;
    void *ht_cached_keys;
} PyHeapTypeObject;

typedef struct {
    PyObject ob_base;
    Py_ssize_t ma_used;
    void *ma_keys;
    void *ma_values;
} PyDictObject;

typedef struct _dictvalues {
    PyObject *values[1];
} PyDictValues;

typedef struct {
    PyVarObject ob_base;
    Py_ssize_t ob_shash;
    char ob_sval[1];
} PyBytesObject;

typedef struct {
    PyObject ob_base;
    Py_ssize_t length;
    Py_ssize_t hash;
    struct {
        unsigned int interned : 3;
        unsigned int kind : 3;
        unsigned int compact : 1;
        unsigned int ascii : 1;
    } state;
} PyASCIIObject;

typedef struct {
    PyASCIIObject _base;
    Py_ssize_t utf8_length;
    char *utf8;
} PyCompactUnicodeObject;

typedef struct PyCodeObject {
    PyVarObject ob_base;
    int co_firstlineno;
    PyObject *co_filename;
    PyObject *co_name;
    PyObject *co_qualname;
    PyObject *co_linetable;
    int _co_firsttraceable;
    char co_code_adaptive[1];
} PyCodeObject;

struct _PyInterpreterFrame;

typedef struct _PyCFrame {
    uint8_t use_tracing;
    struct _PyInterpreterFrame *current_frame;
    struct _PyCFrame *previous;
} _PyCFrame;

typedef struct _PyInterpreterFrame {
    PyCodeObject *f_code;
    struct _PyInterpreterFrame *previous;
    uint16_t *prev_instr;
    const struct {
        char is_entry;
        char owner;
    };
    PyObject *localsplus[1];
} _PyInterpreterFrame;

struct _ts {
    PyThreadState *prev;
    PyThreadState *next;
    PyInterpreterState *interp;
    int unused;
    _PyCFrame *cframe;
    unsigned long thread_id;
    void *datastack_chunk;
    PyObject **datastack_top;
};

struct pythreads {
    uint64_t next_unique_id;
    PyThreadState *head;
};

struct _is {
    PyInterpreterState *next;
    volatile struct pythreads threads;
};

typedef struct pyruntimestate {
    int initialized;
    struct {
        void *mutex;
        PyInterpreterState *head;
    } interpreters;
    struct {
        int signals_pending;
        struct {
            unsigned long interval;
            uintptr_t last_holder;
            int locked;
        } gil;
    } ceval;
} _PyRuntimeState;

_PyRuntimeState _PyRuntime = {1};
PyHeapTypeObject class;
PyDictObject dictionary;
PyDictValues values;
PyBytesObject bytes;
PyCompactUnicodeObject text;
_PyInterpreterFrame frame;
struct _is interpreter;
struct _ts thread;
