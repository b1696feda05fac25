/* Runs the assembly code of libcrypto, and stops at random instructions of it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static void *library;

/* No header is needed: what is called takes and gives numbers and pointers. */
#define CALL(name, ...) ((long (*)())dlsym(library, #name))(__VA_ARGS__)

static char text[16 * 1024], made[sizeof text + 64], key[64];

static void hash(const char *name)
{
    long method = CALL(EVP_get_digestbyname, name);
    unsigned bytes;
    if (method)
        CALL(EVP_Digest, text, sizeof text, made, &bytes, (void *)method, NULL);
}

static void encrypt(const char *name)
{
    long method = CALL(EVP_get_cipherbyname, name);
    int bytes;
    if (!method)
        return;
    void *context = (void *)CALL(EVP_CIPHER_CTX_new);
    CALL(EVP_EncryptInit_ex, context, (void *)method, NULL, key, key);
    CALL(EVP_EncryptUpdate, context, made, &bytes, text, (int)sizeof text);
    CALL(EVP_CIPHER_CTX_free, context);
}

static void exponentiate(int bits)
{
    void *context = (void *)CALL(BN_CTX_new);
    void *numbers[4];
    for (int nth = 0; nth < 4; nth++) {
        numbers[nth] = (void *)CALL(BN_new);
        CALL(BN_rand, numbers[nth], bits, 0, 1);
    }
    CALL(BN_mod_exp_mont, numbers[0], numbers[1], numbers[2], numbers[3], context, NULL);
    CALL(BN_mod_exp_mont_consttime, numbers[0], numbers[1], numbers[2], numbers[3], context, NULL);
    CALL(BN_mod_mul, numbers[0], numbers[1], numbers[2], numbers[3], context);
    for (int nth = 0; nth < 4; nth++)
        CALL(BN_free, numbers[nth]);
    CALL(BN_CTX_free, context);
}

static void multiply_points(int curve)
{
    void *pair = (void *)CALL(EC_KEY_new_by_curve_name, curve);
    CALL(EC_KEY_generate_key, pair);
    CALL(EC_KEY_free, pair);
}

int main(void)
{
    const char *digests[] = {"MD5", "SHA1", "SHA256", "SHA512", "SHA3-256", "BLAKE2b512", "SM3"};
    const char *ciphers[] = {"aes-128-cbc", "aes-256-gcm", "aes-128-ctr", "aes-256-ocb",
                             "chacha20-poly1305", "camellia-128-cbc", "des-ede3-cbc", "rc4"};
    struct itimerval often = {.it_interval = {.tv_usec = 1}, .it_value = {.tv_usec = 1}};
    library = dlopen("libcrypto.so.3", RTLD_NOW);
    if (!library)
        return 1;
    setitimer(ITIMER_PROF, &often, NULL);
    for (;;) {
        for (int nth = 0; nth < 7; nth++)
            hash(digests[nth]);
        for (int nth = 0; nth < 8; nth++)
            encrypt(ciphers[nth]);
        exponentiate(512);
        exponentiate(2048);
        /* P-256, P-521, secp256k1. */
        multiply_points(415);
        multiply_points(716);
        multiply_points(714);
    }
}
