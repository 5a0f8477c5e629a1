"""The course of the losses of a tree, and whether a new one may soon err less: header-only kernels.

The losses of the last rows, fading, are held against those of the first ones and of all.
"""

from libc.math cimport log
from libc.stdint cimport int32_t, int64_t

from streamtree._core.kernels.pooling cimport LEAST_PARTS, MOST_REPEATS

cdef enum:
    # how it errs of late is told by so many rows, and how it erred at first by so many; whether it
    # may be outdated is looked at every so many rows, and no sooner than after so many
    LATE_ROWS = 125
    FIRST_ROWS = 1000
    COURSE_ROWS = 64
    SETTLED_ROWS = 2000
    # one that errs more than a guess may be where this is so many quarters of its mean loss
    GUESS_QUARTERS = 5
    # a loss of less than one part of so many nats is none
    NAT_PARTS = 5


cdef struct Course:
    # of the losses since the tree began
    int64_t n
    double rows         # by weight
    double sum
    double first        # the mean of the first ones
    double late         # and of the last ones, fading
    double capped       # the same, where no loss is more than that of a guess


cdef inline void course_add(Course* course, double loss, double capped,
                            double weight) noexcept nogil:
    """Count the loss of a row, which is also given as no more than that of a guess."""
    cdef double part
    weight = min(weight, <double> MOST_REPEATS)
    course.n += 1
    course.rows += weight
    course.sum += weight * loss
    if course.rows > FIRST_ROWS:
        part = weight * (1.0 / LATE_ROWS)
    else:
        part = weight / min(course.rows, <double> LATE_ROWS)
        course.first = course.sum / course.rows
    course.late += part * (loss - course.late)
    course.capped += part * (capped - course.capped)


cdef inline bint is_time_to_look(const Course* course) noexcept nogil:
    return course.n % COURSE_ROWS == 0 and course.rows >= SETTLED_ROWS


cdef inline bint is_worse_with_share(Course* course, double share, int32_t n_labels,
                                     double weight, double patience) noexcept nogil:
    """Count a row to whose label this share was given; see whether the tree may be outdated.

    It may be where it errs more than when it had just begun, and so many times as much as in the
    mean, or more than a guess: one that begins now may soon err less.
    """
    # shares are sums: rounding may make one more than all
    cdef double loss = -log(min(max(share, 1.0 / LEAST_PARTS), 1.0)), mean
    course_add(course, loss, loss if share * n_labels >= 1.0 else log(n_labels), weight)
    if not is_time_to_look(course):
        return False
    mean = course.sum / course.rows
    return course.late > max(
        course.first, 1.0 / NAT_PARTS,
        min(patience * mean, max(log(n_labels), 0.25 * GUESS_QUARTERS * mean)),
    )


cdef inline bint is_worse_with_error(Course* course, double error, double weight,
                                     double patience) noexcept nogil:
    """The same of a number that was predicted with this error, 0 or more."""
    course_add(course, error, error, weight)
    return is_time_to_look(course) and course.late > max(
        course.first, patience * course.sum / course.rows
    )
