/* A fence below Python: loaded before libc (LD_PRELOAD), so that native libraries meet it as well.
 *
 * A name that is not of this machine is not looked up, and no address but of this machine is reached; both are noted
 * in the file FENCE_NOTES, one line each: what, which, by which program. With FENCE_WRITES set, so is every file that
 * is opened to be written and every folder that is made; those are let through.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* libc's own. */
#define NEXT(name)                                              \
    ({                                                          \
        static __typeof__(&name) next;                          \
        if (next == NULL) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        next;                                                   \
    })

/* By system calls alone: libc's own functions would come back here. */
static void note(const char *what, const char *which) {
    const char *file = getenv("FENCE_NOTES");
    char line[4200];
    int before = errno, length;
    if (file == NULL) return;
    length = snprintf(line, sizeof line, "%s\t%.4000s\t%s\n", what, which, program_invocation_short_name);
    long out = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (out >= 0) {
        syscall(SYS_write, out, line, length);
        syscall(SYS_close, out);
    }
    errno = before;
}

/* --- names */
static int is_ours(const char *name) {
    unsigned char address[16];
    char host[256];
    if (name == NULL || *name == '\0' || strcmp(name, "localhost") == 0) return 1;
    if (gethostname(host, sizeof host) == 0 && strcmp(name, host) == 0) return 1; /* from /etc/hosts */
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    if (is_ours(name)) return NEXT(getaddrinfo)(name, service, hints, found);
    note("look-up", name);
    return EAI_FAIL;
}

struct hostent *gethostbyname(const char *name) {
    if (is_ours(name)) return NEXT(gethostbyname)(name);
    note("look-up", name);
    h_errno = NO_RECOVERY;
    return NULL;
}

struct hostent *gethostbyname2(const char *name, int family) {
    if (is_ours(name)) return NEXT(gethostbyname2)(name, family);
    note("look-up", name);
    h_errno = NO_RECOVERY;
    return NULL;
}

int gethostbyname_r(const char *name, struct hostent *entry, char *room, size_t size, struct hostent **found, int *error) {
    if (is_ours(name)) return NEXT(gethostbyname_r)(name, entry, room, size, found, error);
    note("look-up", name);
    *found = NULL;
    *error = NO_RECOVERY;
    return ENOENT;
}

/* --- addresses. Who asks a name server without libc is seen here: a name server has port 53, wherever it is. */
static int is_foreign(const struct sockaddr *address) {
    char text[INET6_ADDRSTRLEN + 8];
    int port, ours;
    if (address == NULL) return 0;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)address;
        unsigned long number = ntohl(four->sin_addr.s_addr);
        inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
        port = ntohs(four->sin_port);
        ours = (number >> 24) == 127 || number == 0;
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
        inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
        port = ntohs(six->sin6_port);
        ours = IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) || IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) && six->sin6_addr.s6_addr[12] == 127);
    } else {
        return 0;
    }
    if (ours && port != 53) return 0;
    snprintf(text + strlen(text), 8, ":%d", port);
    note("connection", text);
    errno = ENETUNREACH;
    return 1;
}

int connect(int socket, const struct sockaddr *address, socklen_t length) {
    return is_foreign(address) ? -1 : NEXT(connect)(socket, address, length);
}

ssize_t sendto(int socket, const void *data, size_t size, int flags, const struct sockaddr *address, socklen_t length) {
    return is_foreign(address) ? -1 : NEXT(sendto)(socket, data, size, flags, address, length);
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    return is_foreign(message->msg_name) ? -1 : NEXT(sendmsg)(socket, message, flags);
}

int sendmmsg(int socket, struct mmsghdr *messages, unsigned int count, int flags) {
    for (unsigned int i = 0; i < count; i++)
        if (is_foreign(messages[i].msg_hdr.msg_name)) return -1;
    return NEXT(sendmmsg)(socket, messages, count, flags);
}

/* --- files */
static void note_write(int folder, const char *path) {
    char whole[4096], link[64], where[2048];
    ssize_t length;
    if (getenv("FENCE_WRITES") == NULL || path == NULL) return;
    if (*path == '/') {
        note("write", path);
        return;
    }
    if (folder == AT_FDCWD) strcpy(link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    length = syscall(SYS_readlinkat, AT_FDCWD, link, where, sizeof where - 1);
    where[length < 0 ? 0 : length] = '\0';
    snprintf(whole, sizeof whole, "%s/%s", where, path);
    note("write", whole);
}

#define WRITES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & O_CREAT))
#define MODE(flags)                                                          \
    mode_t mode = 0;                                                         \
    if (((flags) & O_CREAT) || ((flags) & O_TMPFILE) == O_TMPFILE) {         \
        va_list more;                                                        \
        va_start(more, flags);                                               \
        mode = va_arg(more, mode_t);                                         \
        va_end(more);                                                        \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    if (WRITES(flags)) note_write(AT_FDCWD, path);
    return NEXT(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    if (WRITES(flags)) note_write(AT_FDCWD, path);
    return NEXT(open64)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE(flags)
    if (WRITES(flags)) note_write(folder, path);
    return NEXT(openat)(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags)
    if (WRITES(flags)) note_write(folder, path);
    return NEXT(openat64)(folder, path, flags, mode);
}

FILE *fopen(const char *path, const char *how) {
    if (strpbrk(how, "wa+") != NULL) note_write(AT_FDCWD, path);
    return NEXT(fopen)(path, how);
}

FILE *fopen64(const char *path, const char *how) {
    if (strpbrk(how, "wa+") != NULL) note_write(AT_FDCWD, path);
    return NEXT(fopen64)(path, how);
}

int mkdir(const char *path, mode_t mode) {
    note_write(AT_FDCWD, path);
    return NEXT(mkdir)(path, mode);
}
