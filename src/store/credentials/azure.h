/* Credentials of Azure's storage: the first of
 *
 *     AZURE_STORAGE_SAS_TOKEN, or the file AZURE_STORAGE_SAS_TOKEN_FILE
 *     AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_KEY       the account's key
 *     AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID,          workload identity: a token for a token
 *     AZURE_TENANT_ID, AZURE_AUTHORITY_HOST
 *     169.254.169.254 (AZURE_POD_IDENTITY_AUTHORITY_HOST)   the managed identity of the machine, or
 *                                                           AZURE_CLIENT_ID's
 *
 * The last two are asked only where store.metadata allows it. The account is that of the uri, or
 * AZURE_STORAGE_ACCOUNT_NAME, or AZURE_STORAGE_ACCOUNT.
 *
 * Sources: Microsoft, "How managed identities for Azure resources work", "Microsoft identity
 * platform and the OAuth 2.0 client credentials flow", "Create a service SAS".
 */
#ifndef PENSTOCK_STORE_CREDENTIALS_AZURE_H
#define PENSTOCK_STORE_CREDENTIALS_AZURE_H

#include "store/credentials/credentials.h"

/* As credentials_look(). Of a key `access_key` is not set: the account is the store's. INVALID: a
 * key that is no base64, or half of what workload identity needs. */
MUST_USE enum status azure_look(const struct store_settings *settings,
                                struct credentials *ret_found, struct error *err);

#endif
