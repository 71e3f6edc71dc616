/** Loaded before a file of attacks (`node --import`): has it run against the mutant that BROKER_MUTANT names. */
import { load } from '../fuzz/mutants.ts';
import { attackMutants } from './attack-mutants.ts';

const name = process.env.BROKER_MUTANT;
const mutant = attackMutants.find((one) => one.name === name);
if (mutant === undefined) throw new Error(`no such mutant: ${name}`);
load(mutant);
