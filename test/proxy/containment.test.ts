/** A throw costs one request: at some of the points that `test/faults/containment.test.ts` has all of. */
process.env.STEP = '25';
await import('../faults/containment.test.ts');
