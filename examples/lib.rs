//! Small programs that show the two patterns; every one is run and checked by the tests.
