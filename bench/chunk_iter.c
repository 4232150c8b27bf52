/* Lists the chunks of a dataset by libhdf5: H5Dchunk_iter, references only.
 * usage: chunk_iter DATASET ROUNDS FILE   prints the number of chunks and the median of seconds. */
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned long long count, sum;

static int chunk(const hsize_t *offset, unsigned mask, haddr_t address, hsize_t size, void *user)
{
    (void)offset;
    (void)mask;
    (void)user;
    count++;
    sum += address ^ size;
    return 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rounds = argc == 4 ? atoi(argv[2]) : 0;
    if (rounds < 1 || rounds > 100)
    {
        fprintf(stderr, "usage: chunk_iter DATASET ROUNDS FILE\n");
        return 2;
    }
    double times[100];
    for (int round = 0; round < rounds; round++)
    {
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        count = 0;
        hid_t file = H5Fopen(argv[3], H5F_ACC_RDONLY, H5P_DEFAULT);
        hid_t dataset = H5Dopen2(file, argv[1], H5P_DEFAULT);
        if (H5Dchunk_iter(dataset, H5P_DEFAULT, chunk, NULL) < 0)
            return 1;
        H5Dclose(dataset);
        H5Fclose(file);
        clock_gettime(CLOCK_MONOTONIC, &end);
        times[round] = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
    }
    qsort(times, (size_t)rounds, sizeof times[0], compare);
    printf("%llu %.6f\n", count, times[rounds / 2]);
    return sum == 1;
}
