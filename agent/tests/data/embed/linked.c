/* A program that is linked with the engine. */

int engine(int argc, char **argv);

int main(int argc, char **argv)
{
    return engine(argc, argv);
}
