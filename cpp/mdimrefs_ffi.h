/* The seam between GDAL's C++ classes (cpp/) and the crate (src/plugin/).
 *
 * Rules, both ways:
 * - Text is UTF-8 with a NUL at its end. What a function returns in a `char **`
 * is freed with mr_string_free.
 * - An `error` argument gets a message if, and only if, the function fails; it
 * is then freed by the caller.
 * - Nothing throws or panics across. Functions may be called from any thread,
 * unless they say otherwise.
 */
#ifndef MDIMREFS_FFI_H
#define MDIMREFS_FFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
{
#endif

    /* ---- Rust: called from C++ ---- */

    /** An open store with its reader; counted, shared by all that use it. */
    typedef struct MrStore MrStore;

    /** Frees what a function of this header returned as text. */
    void mr_string_free(char *text);

    /** Whether a file that begins with these bytes is a store that this project
     * wrote. */
    bool mr_is_store(const uint8_t *head, size_t length);

    /** Splits a name to open (with or without the prefix) into the path of the
     * store and what follows it. */
    bool mr_split_name(const char *name, char **path, char **rest,
                       char **error);

    /** Opens a store. `options` are KEY=VALUE texts, NULL at the end, or NULL.
     */
    MrStore *mr_open(const char *path, const char *const *options,
                     char **error);

    /** Lets go of a store. */
    void mr_close(MrStore *store);

    /** All metadata, as JSON (see src/plugin/describe.rs). */
    char *mr_describe(const MrStore *store, char **error);

    /** Finds the array and the indices of a name like `/sst:29:0` or
     * `/sst:time=2000-01-31`: returns the array's number, or -1. `indices` has
     * room for 32 and gets the index of each dimension, or UINT64_MAX; `count`
     * gets how many dimensions there are. */
    int mr_select(const MrStore *store, const char *name, uint64_t *indices,
                  size_t *count, char **error);

    /** What each index along a dimension of an array is called, as JSON
     * `{"labels": [text]}`: dates or numbers; none without a coordinate. */
    char *mr_labels(const MrStore *store, size_t array, size_t axis,
                    char **error);

    /** Reads start, start + step, … of an array of numbers or complex numbers,
     * in native byte order; strides in bytes. */
    bool mr_read(const MrStore *store, size_t array, const uint64_t *start,
                 const size_t *count, const int64_t *step,
                 const ptrdiff_t *strides, size_t rank, void *out,
                 char **error);

    /** Reads strings; `sink` gets each in C order. */
    bool
    mr_read_strings(const MrStore *store, size_t array, const uint64_t *start,
                    const size_t *count, const int64_t *step, size_t rank,
                    void (*sink)(void *user, size_t index, const char *text),
                    void *user, char **error);

    /** Reads chunks ahead. */
    bool mr_advise(const MrStore *store, size_t array, const uint64_t *start,
                   const size_t *count, size_t rank, char **error);

    /** Where a chunk is. */
    typedef struct
    {
        /** 0: absent, 1: a byte range, 2: in line. */
        int state;
        /** Path, for a byte range; freed by mr_raw_chunk_free. */
        char *path;
        uint64_t offset;
        uint64_t size;
        /** Block-info text, or NULL. */
        char *info;
        /** Bytes in line. */
        uint8_t *data;
        size_t length;
    } MrRawChunk;

    /** Where a chunk is, by its place in the chunk grid. */
    bool mr_raw_chunk(const MrStore *store, size_t array, const uint64_t *key,
                      size_t rank, MrRawChunk *out, char **error);

    /** Frees what mr_raw_chunk filled in. */
    void mr_raw_chunk_free(MrRawChunk *chunk);

    /** All commands and their arguments, as JSON (see src/plugin/commands.rs).
     */
    char *mr_commands(void);

    /** Runs a command. `arguments` is a JSON object. `progress` (false: stop)
     * and `warn` are called on this thread alone. */
    bool mr_run(const char *name, const char *arguments,
                bool (*progress)(void *user, double share, const char *message),
                void (*warn)(void *user, const char *message), void *user,
                char **output, char **error);

    /* Tables: rows of a listing, and Arrow streams. */

    /** A listing of rows. Of one thread at a time. */
    typedef struct MrRows MrRows;

    struct ArrowArrayStream;

    /** The tables of a store, as JSON: name, columns, metadata. */
    char *mr_tables(const MrStore *store, char **error);

    /** Lists the rows of table number `table`; of chunks, those with keys in
     * `lo[i] .. hi[i]` (`rank` pairs; 0: all). */
    MrRows *mr_rows_open(const MrStore *store, size_t table, const uint64_t *lo,
                         const uint64_t *hi, size_t rank, char **error);

    /** Runs a query of the user's. */
    MrRows *mr_rows_sql(const MrStore *store, const char *sql, char **error);

    /** Columns of a listing, as JSON. */
    char *mr_rows_columns(const MrRows *rows);

    /** Goes to the next row: 1, or 0 at the end, or -1. `number` gets the
     * number of the row. */
    int mr_rows_next(MrRows *rows, int64_t *number, char **error);

    /** A value of the present row. */
    typedef struct
    {
        /** 0: null, 1: integer, 2: real, 3: text, 4: bytes. */
        int kind;
        int64_t integer;
        double real;
        /** Text (without a NUL) or bytes, until the next row. */
        const uint8_t *bytes;
        size_t length;
    } MrValue;

    /** A value of the present row, by column. */
    void mr_rows_value(const MrRows *rows, size_t column, MrValue *out);

    /** Ends a listing. */
    void mr_rows_close(MrRows *rows);

    /** Number of rows of a table, or -1. */
    int64_t mr_rows_count(const MrStore *store, size_t table,
                          const uint64_t *lo, const uint64_t *hi, size_t rank,
                          char **error);

    /** Rows of a table, with keys in a range as for mr_rows_open, as an Arrow
     * C stream, which the caller releases. `without` are columns to leave out;
     * `number` is the name of a first column with the number of each row, or
     * NULL. */
    bool mr_rows_stream(const MrStore *store, size_t table, const uint64_t *lo,
                        const uint64_t *hi, size_t rank,
                        const char *const *without, const char *number,
                        size_t batch, struct ArrowArrayStream *out,
                        char **error);

    /* ---- C++: called from Rust ---- */

    /** Registers driver and commands. Called once GDAL loads the plugin. */
    void mr_register(void);

    /** A web server's answer. */
    typedef struct MrAnswer MrAnswer;

    /** The URL to ask for a path of /vsicurl/, or of a bucket (signed, unless
     * GDAL's options say not to); NULL if the path is no such, or there are no
     * credentials. Freed by mr_url_free. */
    char *mr_url(const char *path);

    void mr_url_free(char *url);

    /** Asks for bytes of a URL, in one request, with GDAL's options for `path`.
     * Of the body no more than `most` bytes are taken. `session` names a
     * connection that is kept. */
    MrAnswer *mr_http_get(const char *url, const char *path, uint64_t offset,
                          uint64_t length, uint64_t most, const char *session);

    /** Closes the connection of a session. */
    void mr_http_close(const char *session);

    /** What went wrong, or NULL. */
    const char *mr_answer_error(const MrAnswer *answer);

    /** A header by its name, or NULL. */
    const char *mr_answer_header(const MrAnswer *answer, const char *name);

    const unsigned char *mr_answer_body(const MrAnswer *answer, size_t *length);

    void mr_answer_free(MrAnswer *answer);

    /** Whether an open VSI file can be read at an offset by several threads. */
    bool mr_vsi_has_pread(void *file);

    /** Reads at an offset; returns the bytes read. Only if mr_vsi_has_pread. */
    size_t mr_vsi_pread(void *file, void *buffer, size_t size, uint64_t offset);

    /** Size in bytes and time of change (seconds since 1970; 0: not known) of a
     * path. */
    bool mr_vsi_stat(const char *path, uint64_t *size, int64_t *mtime);

    /** Whether a path is a folder. */
    bool mr_vsi_is_folder(const char *path);

    /** Forgets VSI's last error on this thread. */
    void mr_vsi_error_reset(void);

    /** VSI's last error on this thread, or an empty text; valid until the next.
     */
    const char *mr_vsi_error(void);

#ifdef __cplusplus
}
#endif

#endif
