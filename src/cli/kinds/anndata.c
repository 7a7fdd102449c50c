/* Stores of AnnData: a matrix X of cells and genes, dense or as a sparse group, other matrices of
 * the same cells (layers, obsm), and the columns of the table obs. */
#include "cli/kinds/kinds_internal.h"

#include "base/dtype.h"
#include "base/size.h"
#include "zarr/hierarchy/sparse_group.h"

#include <stdio.h>
#include <string.h>

enum { MOST_COLUMNS = 8 };

enum form { NO_MATRIX, DENSE, BY_ROWS, BY_COLUMNS };

struct matrix {
    enum form form;
    uint64_t rows, columns;
    char path[ZARR_PATH_BYTES];
};

static struct matrix matrix_at(const struct kind_look *look, const char *path)
{
    struct matrix matrix = {NO_MATRIX, 0, 0, ""};
    const struct zarr_node *node = kind_array(look, path);
    char part[2 * ZARR_PATH_BYTES];
    struct zarr_sparse_group group;
    snprintf(matrix.path, sizeof matrix.path, "%s", path);
    if (node && node->array.rank == 2) {
        matrix.form = DENSE;
        matrix.rows = node->array.shape[0];
        matrix.columns = node->array.shape[1];
        return matrix;
    }
    snprintf(part, sizeof part, "%s/indptr", path);
    if (!kind_array(look, part))
        return matrix;
    snprintf(part, sizeof part, "%s%s%s", look->group, *look->group ? "/" : "", path);
    if (zarr_sparse_group_read(look->store, look->hierarchy->format, part, &group, NULL) ==
        STATUS_OK) {
        matrix.form = strcmp(group.encoding, "csc_matrix") == 0 ? BY_COLUMNS : BY_ROWS;
        matrix.rows = group.row_count;
        matrix.columns = group.column_count;
    }
    return matrix;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The matrix that a node is, or begins as "indptr": of layers and obsm. */
static struct matrix matrix_of(const struct kind_look *look, const struct zarr_node *node)
{
    char path[ZARR_PATH_BYTES];
    const char *from = kind_path(look, node), *slash;
    if (!from || (!begins(from, "layers/") && !begins(from, "obsm/")))
        return (struct matrix){.form = NO_MATRIX};
    snprintf(path, sizeof path, "%s", from);
    slash = strrchr(path, '/');
    if (strcmp(slash, "/indptr") == 0)
        path[slash - path] = '\0';
    else if (strchr(path, '/') != slash)
        return (struct matrix){.form = NO_MATRIX};
    return matrix_at(look, path);
}

/* X, or else the first other matrix whose rows can be read. */
static struct matrix find_matrix(const struct kind_look *look)
{
    struct matrix found = matrix_at(look, "X");
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        struct matrix other = found.form == DENSE || found.form == BY_ROWS
                                  ? found
                                  : matrix_of(look, &look->hierarchy->nodes[i]);
        if (other.form == DENSE || other.form == BY_ROWS)
            return other;
    }
    return found;
}

static void put_matrix(const char *mark, const struct matrix *matrix, struct text *out)
{
    kind_put_field(mark, kind_leaf(matrix->path), matrix->path, out);
    if (matrix->form == BY_ROWS)
        text_append(out, ", deliver: csr");
    text_append(out, "}");
}

static void put_other_matrices(const struct kind_look *look, const struct matrix *chosen,
                               struct text *out)
{
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        struct matrix other = matrix_of(look, &look->hierarchy->nodes[i]);
        if ((other.form != DENSE && other.form != BY_ROWS) || strcmp(other.path, chosen->path) == 0)
            continue;
        put_matrix("# ", &other, out);
        text_append(out, "\n");
    }
}

/* A column of obs with an item for each cell: *ret_name is its name, of `name_bytes`. */
static bool take_column(const struct kind_look *look, const struct zarr_node *node, uint64_t rows,
                        const char **ret_name, size_t *ret_length, bool *ret_is_category)
{
    const char *path = kind_path(look, node);
    if (!path || !begins(path, "obs/") || node->status != STATUS_OK || node->array.rank != 1 ||
        node->array.shape[0] != rows)
        return false;
    const char *name = path + strlen("obs/"), *slash = strchr(name, '/');
    *ret_is_category = slash && strcmp(slash, "/codes") == 0;
    *ret_name = name;
    *ret_length = slash ? (size_t)(slash - name) : strlen(name);
    return !slash || *ret_is_category || strcmp(slash, "/values") == 0;
}

/* `matrix`: the name of another field. */
static void put_columns(const struct kind_look *look, uint64_t rows, const char *matrix,
                        struct text *out)
{
    size_t count = 0;
    for (size_t i = 0; i < look->hierarchy->node_count; i++) {
        const struct zarr_node *node = &look->hierarchy->nodes[i];
        const char *name;
        size_t length;
        bool is_category;
        if (!take_column(look, node, rows, &name, &length, &is_category))
            continue;
        char column[ZARR_PATH_BYTES], field[ZARR_PATH_BYTES + sizeof "obs_"];
        snprintf(column, sizeof column, "%.*s", (int)length, name);
        snprintf(field, sizeof field, "%s%s", strcmp(column, matrix) == 0 ? "obs_" : "", column);
        kind_put_field(count++ < MOST_COLUMNS ? "" : "# ", field, kind_path(look, node), out);
        text_append(out, "}");
        if (is_category)
            text_append(out, "    # numbers of the names in obs/%s/categories",
                        text_shown(column).text);
        text_append(out, "\n");
    }
}

static void describe(const struct matrix *matrix, bool x_by_columns, struct kind_finding *finding)
{
    text_append(&finding->about, "This is a store of AnnData. A sample is a cell");
    if (matrix->form == NO_MATRIX || matrix->form == BY_COLUMNS)
        text_append(&finding->about, ", of the table obs alone");
    else
        text_append(&finding->about, ": a row of %s (%s x %s, %s)", text_shown(matrix->path).text,
                    count_format(matrix->rows).text, count_format(matrix->columns).text,
                    matrix->form == DENSE
                        ? "dense"
                        : "sparse; batches have values, column indices and offsets");
    text_append(&finding->about,
                ". Columns of obs come with it, categories as numbers of their names.");
    if (x_by_columns)
        text_append(&finding->about,
                    " X is stored by columns (csc_matrix), of which no rows can be "
                    "read: store adata.X.tocsr() instead.");
}

/* The cells of a store without a matrix: the length of the table's index. */
static uint64_t count_cells(const struct kind_look *look, const struct matrix *matrix)
{
    for (size_t i = 0; matrix->form == NO_MATRIX && i < look->hierarchy->node_count; i++) {
        const char *path = kind_path(look, &look->hierarchy->nodes[i]);
        if (path && begins(path, "obs/") && !strchr(path + strlen("obs/"), '/'))
            return look->hierarchy->nodes[i].array.shape[0];
    }
    return matrix->rows;
}

bool kind_anndata(const struct kind_look *look, struct kind_finding *finding)
{
    if (!kind_says(look, "", "encoding-type", "anndata") &&
        !(kind_says(look, "obs", "encoding-type", "dataframe") &&
          kind_says(look, "var", "encoding-type", "dataframe")))
        return false;
    struct matrix matrix = find_matrix(look);
    bool is_read = matrix.form == DENSE || matrix.form == BY_ROWS;
    finding->name = "AnnData";
    describe(&matrix, matrix_at(look, "X").form == BY_COLUMNS, finding);
    text_append(&finding->dataset, "  fields:\n");
    if (is_read)
        put_matrix("", &matrix, &finding->dataset);
    if (matrix.form == BY_ROWS)
        text_append(&finding->dataset,
                    "    # or deliver: {dense: [%llu], combine: last}, rows with their zeros",
                    (unsigned long long)matrix.columns);
    text_append(&finding->dataset, is_read ? "\n" : "");
    if (is_read && !begins(matrix.path, "obsm/"))
        text_append(&finding->dataset,
                    "    # slice: {1: [CD4, CD3E]} in the braces: these genes alone\n");
    put_other_matrices(look, &matrix, &finding->dataset);
    put_columns(look, count_cells(look, &matrix), kind_leaf(matrix.path), &finding->dataset);
    return true;
}
