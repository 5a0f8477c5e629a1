/* Where the loader can choose, long loops exist for two generations of processors. */

#ifndef STREAMTREE_CLONES_H
#define STREAMTREE_CLONES_H

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define STREAMTREE_CLONES __attribute__((target_clones("avx2", "default"), unused)) static
#else
#define STREAMTREE_CLONES static inline
#endif

#endif
