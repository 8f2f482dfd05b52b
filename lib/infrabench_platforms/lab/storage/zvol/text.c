/* Text that grows as it is written. Without memory there is nothing sensible left to say: the process ends. */
#include "engine.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void text_free(struct text *text) {
    free(text->data);
    *text = (struct text){0};
}

static void reserve(struct text *text, size_t more) {
    size_t needed = text->size + more + 1;
    if (needed <= text->room)
        return;
    size_t room = text->room ? text->room : 256;
    while (room < needed)
        room *= 2;
    text->data = realloc(text->data, room);
    if (!text->data)
        abort();
    text->room = room;
}

void text_add(struct text *text, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        abort();
    reserve(text, (size_t)length);
    vsnprintf(text->data + text->size, (size_t)length + 1, format, again);
    va_end(again);
    text->size += (size_t)length;
}

void text_quote(struct text *text, const char *string) {
    text_add(text, "\"");
    for (const unsigned char *at = (const unsigned char *)string; *at; at++) {
        if (*at == '"' || *at == '\\')
            text_add(text, "\\%c", *at);
        else if (*at < 0x20 || *at >= 0x7f) /* bytes, not characters: what is told here is ASCII */
            text_add(text, "\\u%04x", *at);
        else
            text_add(text, "%c", *at);
    }
    text_add(text, "\"");
}
