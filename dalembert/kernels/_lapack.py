"""0 · kernels: matrix factorisations that are not written out as scalars, by the LAPACK that SciPy brings.

Each is a function `lapack.NAME(numbers, results, rows, columns, way)` in LLVM's language around LAPACK's own; matrices
are stored by columns, and all results are NaN where LAPACK fails. The addresses of LAPACK's functions come from
`scipy.linalg.cython_lapack`, SciPy's interface for compiled code.
"""

from __future__ import annotations

import ctypes
import functools

import llvmlite.binding as llvm

FUNCTIONS = ("dgesdd", "dsyevd", "dgetrf")


@functools.cache
def resolve() -> None:
    """Have LLVM find LAPACK's functions in this process."""
    from scipy.linalg import cython_lapack  # pyright: ignore[reportAttributeAccessIssue]

    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    for name in FUNCTIONS:
        capsule = cython_lapack.__pyx_capi__[name]
        llvm.add_symbol(f"lapack_{name}", api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


SINGULAR_VALUES, THIN, WHOLE = 0, 1, 2
"""Ways of a singular value decomposition: values alone; U and Vᵀ as narrow as they are needed; whole ones."""


def text() -> str:
    """The functions in LLVM's language."""
    return _TEXT


_TEXT = """
declare void @lapack_dgesdd(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
declare void @lapack_dsyevd(ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr)
declare void @lapack_dgetrf(ptr, ptr, ptr, ptr, ptr, ptr)

define internal void @lapack.spoil(ptr %info, ptr %out, i64 %count) noinline {
entry:
  %i = load i32, ptr %info
  %bad = icmp ne i32 %i, 0
  br i1 %bad, label %head, label %end
head:
  %k = phi i64 [0, %entry], [%k1, %body]
  %more = icmp ult i64 %k, %count
  br i1 %more, label %body, label %end
body:
  %p = getelementptr double, ptr %out, i64 %k
  store double 0x7FF8000000000000, ptr %p
  %k1 = add i64 %k, 1
  br label %head
end:
  ret void
}

; results: s (least), U (rows × w), Vᵀ (w' × columns)
define internal void @lapack.svd(ptr %a, ptr %out, i64 %m, i64 %n, i64 %way) noinline {
entry:
  %tall = icmp ugt i64 %m, %n
  %k = select i1 %tall, i64 %n, i64 %m
  %l = select i1 %tall, i64 %m, i64 %n
  %values = icmp eq i64 %way, 0
  %thin = icmp eq i64 %way, 1
  %j1 = select i1 %thin, i8 83, i8 65
  %j = select i1 %values, i8 78, i8 %j1
  %job = alloca i8
  store i8 %j, ptr %job
  %pm = alloca i32
  %pn = alloca i32
  %pk = alloca i32
  %m32 = trunc i64 %m to i32
  %n32 = trunc i64 %n to i32
  %w = select i1 %thin, i64 %k, i64 %n
  %w32 = trunc i64 %w to i32
  store i32 %m32, ptr %pm
  store i32 %n32, ptr %pn
  store i32 %w32, ptr %pk
  %kk = mul i64 %k, %k
  %kk8 = mul i64 %kk, 8
  %l8 = mul i64 %l, 32
  %lw0 = add i64 %kk8, %l8
  %lw = add i64 %lw0, 64
  %work = alloca double, i64 %lw
  %plw = alloca i32
  %lw32 = trunc i64 %lw to i32
  store i32 %lw32, ptr %plw
  %k8 = mul i64 %k, 8
  %iwork = alloca i32, i64 %k8
  %info = alloca i32
  store i32 0, ptr %info
  %u = getelementptr double, ptr %out, i64 %k
  %uw = select i1 %thin, i64 %k, i64 %m
  %us = mul i64 %m, %uw
  %vt = getelementptr double, ptr %u, i64 %us
  call void @lapack_dgesdd(ptr %job, ptr %pm, ptr %pn, ptr %a, ptr %pm, ptr %out, ptr %u, ptr %pm, ptr %vt, ptr %pk, ptr %work, ptr %plw, ptr %iwork, ptr %info)
  %vs = mul i64 %w, %n
  %all0 = add i64 %us, %vs
  %all1 = add i64 %all0, %k
  %all = select i1 %values, i64 %k, i64 %all1
  call void @lapack.spoil(ptr %info, ptr %out, i64 %all)
  ret void
}

; (rows × way)·(way × columns), both by rows, one after the other in a; the product by rows
define internal void @lapack.product(ptr %a, ptr %out, i64 %m, i64 %n, i64 %w) noinline {
entry:
  %mw = mul i64 %m, %w
  %b = getelementptr double, ptr %a, i64 %mw
  br label %rows
rows:
  %i = phi i64 [0, %entry], [%i1, %rows.end]
  %more = icmp ult i64 %i, %m
  br i1 %more, label %columns, label %end
columns:
  %j = phi i64 [0, %rows], [%j1, %columns.end]
  %more.j = icmp ult i64 %j, %n
  br i1 %more.j, label %terms, label %rows.end
terms:
  %k = phi i64 [0, %columns], [%k1, %term]
  %sum = phi double [0.0, %columns], [%sum1, %term]
  %more.k = icmp ult i64 %k, %w
  br i1 %more.k, label %term, label %columns.end
term:
  %ai = mul i64 %i, %w
  %aik = add i64 %ai, %k
  %pa = getelementptr double, ptr %a, i64 %aik
  %xa = load double, ptr %pa
  %bk = mul i64 %k, %n
  %bkj = add i64 %bk, %j
  %pb = getelementptr double, ptr %b, i64 %bkj
  %xb = load double, ptr %pb
  %x = fmul contract double %xa, %xb
  %sum1 = fadd contract double %sum, %x
  %k1 = add i64 %k, 1
  br label %terms
columns.end:
  %oi = mul i64 %i, %n
  %oij = add i64 %oi, %j
  %po = getelementptr double, ptr %out, i64 %oij
  store double %sum, ptr %po
  %j1 = add i64 %j, 1
  br label %columns
rows.end:
  %i1 = add i64 %i, 1
  br label %rows
end:
  ret void
}

; results: eigenvectors by columns, eigenvalues; the lower triangle is read
define internal void @lapack.eigh(ptr %a, ptr %out, i64 %m, i64 %n, i64 %way) noinline {
entry:
  %nn = mul i64 %n, %n
  %bytes = mul i64 %nn, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %a, i64 %bytes, i1 false)
  %w = getelementptr double, ptr %out, i64 %nn
  %job = alloca i8
  store i8 86, ptr %job
  %low = alloca i8
  store i8 76, ptr %low
  %pn = alloca i32
  %n32 = trunc i64 %n to i32
  store i32 %n32, ptr %pn
  %nn2 = mul i64 %nn, 2
  %n8 = mul i64 %n, 8
  %lw0 = add i64 %nn2, %n8
  %lw = add i64 %lw0, 16
  %work = alloca double, i64 %lw
  %iwork = alloca i32, i64 %lw
  %plw = alloca i32
  %lw32 = trunc i64 %lw to i32
  store i32 %lw32, ptr %plw
  %info = alloca i32
  store i32 0, ptr %info
  call void @lapack_dsyevd(ptr %job, ptr %low, ptr %pn, ptr %out, ptr %pn, ptr %w, ptr %work, ptr %plw, ptr %iwork, ptr %plw, ptr %info)
  %all = add i64 %nn, %n
  call void @lapack.spoil(ptr %info, ptr %out, i64 %all)
  ret void
}

; results: LU (rows × columns), pivots (least)
define internal void @lapack.lu(ptr %a, ptr %out, i64 %m, i64 %n, i64 %way) noinline {
entry:
  %mn = mul i64 %m, %n
  %bytes = mul i64 %mn, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %a, i64 %bytes, i1 false)
  %tall = icmp ugt i64 %m, %n
  %k = select i1 %tall, i64 %n, i64 %m
  %piv = alloca i32, i64 %k
  %pm = alloca i32
  %pn = alloca i32
  %m32 = trunc i64 %m to i32
  %n32 = trunc i64 %n to i32
  store i32 %m32, ptr %pm
  store i32 %n32, ptr %pn
  %info = alloca i32
  store i32 0, ptr %info
  call void @lapack_dgetrf(ptr %pm, ptr %pn, ptr %out, ptr %pm, ptr %piv, ptr %info)
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp ult i64 %i, %k
  br i1 %more, label %body, label %end
body:
  %p = getelementptr i32, ptr %piv, i64 %i
  %x = load i32, ptr %p
  %y = sub i32 %x, 1
  %z = sitofp i32 %y to double
  %at = add i64 %mn, %i
  %to = getelementptr double, ptr %out, i64 %at
  store double %z, ptr %to
  %i1 = add i64 %i, 1
  br label %head
end:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""  # noqa: E501
