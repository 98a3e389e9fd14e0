/*
 * remote.c - runs shell commands in a guest of a test rig.
 *
 *     remote serve PORT                in the guest: answers for ever
 *     remote IPV4:PORT COMMAND...      outside: prints what it prints, exits with its status
 *
 * The caller sends the command and closes its half; the answer is the output, then a NUL and the
 * status in one byte. 125 means that the guest did not answer. Whoever reaches the port is obeyed:
 * it is for a network that ends inside this machine.
 */
#include <config.h>

#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MAX = 65536, NO_ANSWER = 125 };

static bool
send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

/* One command, in a process of its own. What it leaves in the background must have redirected its
 * output, or the answer would not end before it does. */
_Noreturn static void
serve_one(int conn)
{
	static char text[TEXT_MAX];
	size_t len = 0;
	ssize_t n;
	int out[2];
	int status = 0;

	while (len < sizeof(text) - 1 && (n = read(conn, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	if (pipe(out) < 0)
		_exit(1);
	pid_t pid = fork();
	if (pid < 0)
		_exit(1);
	if (pid == 0) {
		signal(SIGPIPE, SIG_DFL);
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		close(conn);
		execl("/bin/sh", "sh", "-c", text, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	while ((n = read(out[0], text, sizeof(text))) > 0)
		if (!send_all(conn, text, (size_t)n))
			break;
	waitpid(pid, &status, 0);
	const char end[2] = {
		'\0', (char)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status))
	};
	_exit(!send_all(conn, end, sizeof(end)));
}

static int
serve(const char *port)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
				    .sin_port = htons((uint16_t)strtoul(port, NULL, 10)) };
	const int one = 1;
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN); /* of the servers of one command: nobody waits for them */
	if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(s, (const struct sockaddr *)&here, sizeof(here)) < 0 || listen(s, 16) < 0)
		err(1, "port %s", port);
	for (;;) {
		int conn = accept4(s, NULL, NULL, SOCK_CLOEXEC);

		if (conn < 0)
			continue;
		if (fork() == 0) {
			signal(SIGCHLD, SIG_DFL);
			serve_one(conn);
		}
		close(conn);
	}
}

/* Print all but the last two bytes, which are the end mark; returns the status. */
static int
print_answer(int conn)
{
	static char text[TEXT_MAX];
	size_t have = 0;
	ssize_t n;

	while ((n = read(conn, text + have, sizeof(text) - have)) > 0) {
		have += (size_t)n;
		if (have <= 2)
			continue;
		fwrite(text, 1, have - 2, stdout);
		fflush(stdout);
		memmove(text, text + have - 2, 2);
		have = 2;
	}
	return have == 2 && !text[0] ? (unsigned char)text[1] : NO_ANSWER;
}

static int
ask(const char *where, char **words)
{
	struct sockaddr_in guest = { .sin_family = AF_INET };
	const char *colon = strchr(where, ':');
	char host[64];

	if (!colon || colon - where >= (long)sizeof(host))
		errx(2, "%s: not an address and a port", where);
	memcpy(host, where, (size_t)(colon - where));
	host[colon - where] = '\0';
	guest.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
	if (inet_pton(AF_INET, host, &guest.sin_addr) != 1)
		errx(2, "%s: not an address", host);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0 || connect(s, (const struct sockaddr *)&guest, sizeof(guest)) < 0)
		err(NO_ANSWER, "%s", where);
	for (char **w = words; *w; w++)
		if (!send_all(s, *w, strlen(*w)) || !send_all(s, " ", 1))
			err(NO_ANSWER, "%s", where);
	shutdown(s, SHUT_WR);
	return print_answer(s);
}

int
main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	if (argc < 3)
		errx(2, "usage: remote serve PORT | remote IPV4:PORT COMMAND...");
	return ask(argv[1], argv + 2);
}
