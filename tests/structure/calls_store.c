/* Added to folders one at a time, by structure.links: a call to store, which only links in folders
 * above it. */
#include "store/store.h"

struct store_settings calls_store(void);

struct store_settings calls_store(void)
{
    return store_settings_default();
}
