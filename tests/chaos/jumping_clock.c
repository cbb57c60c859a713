/* Loaded by LD_PRELOAD: shows its process a wall clock that is off by what the file named in CHAOS_CLOCK says, as a
 * 64-bit number of nanoseconds, at any moment. The monotonic clock stays true, as when a real machine's clock is set.
 *
 * Not libfaketime, because its 0.9.10, which Debian 12 has, makes every time.sleep of Python 3.11 fail with EINVAL once
 * it is told to leave the monotonic clock alone (its issue 426). */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000LL

static volatile int64_t *offset_ns;

__attribute__((constructor)) static void open_offset(void) {
    const char *path = getenv("CHAOS_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        offset_ns = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int answer = (int)syscall(SYS_clock_gettime, clock, now);
    if (answer == 0 && offset_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t shown = now->tv_sec * SECOND_NS + now->tv_nsec + *offset_ns;
        now->tv_sec = shown / SECOND_NS;
        now->tv_nsec = shown % SECOND_NS;
    }
    return answer;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec shown;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &shown) != 0)
        return -1;
    now->tv_sec = shown.tv_sec;
    now->tv_usec = shown.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec shown;
    clock_gettime(CLOCK_REALTIME, &shown);
    if (now)
        *now = shown.tv_sec;
    return shown.tv_sec;
}
