/* For programs that use libnbd: no structured replies. qemu-nbd (7.2 and 10.0) ends the connection of a client that asked
 * for them when a read fails, instead of answering with the error; everything after that fails too. Preloaded into
 * nbdfuse. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

struct nbd_handle;
extern int nbd_set_request_structured_replies(struct nbd_handle *handle, bool request);

struct nbd_handle *nbd_create(void)
{
	struct nbd_handle *(*create)(void) = (struct nbd_handle * (*)(void)) dlsym(RTLD_NEXT, "nbd_create");
	struct nbd_handle *handle = create ? create() : NULL;

	if (handle)
		nbd_set_request_structured_replies(handle, false);
	return handle;
}
