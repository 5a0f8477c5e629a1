/* What threads of one batch need to wait for each other: a few operations on 32-bit words, and ways
   to pass the time. */

#ifndef STREAMTREE_ATOMICS_H
#define STREAMTREE_ATOMICS_H

#include <stdint.h>
#include <time.h>

#if defined(_MSC_VER)

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

static inline double streamtree_now(void) {
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (double) ticks.QuadPart / (double) per_second.QuadPart;
}

static inline uint32_t streamtree_load(const volatile uint32_t *word) {
    /* an exchange that changes nothing is the one that every processor orders */
    return (uint32_t) _InterlockedCompareExchange((volatile long *) word, 0, 0);
}

static inline uint32_t streamtree_add(volatile uint32_t *word, uint32_t more) {
    return (uint32_t) _InterlockedExchangeAdd((volatile long *) word, (long) more);
}

static inline int streamtree_replace(volatile uint32_t *word, uint32_t before, uint32_t after) {
    return (uint32_t) _InterlockedCompareExchange(
        (volatile long *) word, (long) after, (long) before
    ) == before;
}

#define streamtree_pause() YieldProcessor()
#define streamtree_yield() ((void) SwitchToThread())
#define streamtree_nap() Sleep(1)

#else

#include <sched.h>

/* Seconds since some moment: a clock that needs no GIL, and that nobody sets. */
static inline double streamtree_now(void) {
    struct timespec moment;
#ifdef CLOCK_MONOTONIC
    clock_gettime(CLOCK_MONOTONIC, &moment);
#else
    timespec_get(&moment, TIME_UTC);
#endif
    return (double) moment.tv_sec + 1e-9 * (double) moment.tv_nsec;
}

/* What was written before an addition can be read after a load that sees it. */
static inline uint32_t streamtree_load(const volatile uint32_t *word) {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline uint32_t streamtree_add(volatile uint32_t *word, uint32_t more) {
    return __atomic_fetch_add(word, more, __ATOMIC_ACQ_REL);
}

/* Whether the word was `before`, and now is `after`. */
static inline int streamtree_replace(volatile uint32_t *word, uint32_t before, uint32_t after) {
    return __atomic_compare_exchange_n(
        word, &before, after, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE
    );
}

#if defined(__x86_64__) || defined(__i386__)
#define streamtree_pause() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define streamtree_pause() __asm__ volatile("yield" ::: "memory")
#else
#define streamtree_pause() ((void) 0)
#endif
#define streamtree_yield() ((void) sched_yield())

static inline void streamtree_nap(void) {
    struct timespec fifty_microseconds = {0, 50000};
    nanosleep(&fifty_microseconds, NULL);
}

#endif

#endif
