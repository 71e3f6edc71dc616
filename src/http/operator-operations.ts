import * as answers from './answer-schemas.ts';
import type { Operations } from './operations.ts';

/** What operators do with each other, with their own sign-in, and with the broker as a whole. */
export const operatorOperations: Operations = {
  'GET /v1/operators': {
    about: 'The operators, for an owner; for an admin, itself.',
    answers: { 200: answers.operators },
  },
  'POST /v1/operators': {
    about: 'Create an operator. Owners only.',
    answers: { 201: answers.operator },
    refusals: ['conflict', 'not_found'],
  },
  'DELETE /v1/operators/{operator}': {
    about: 'Remove an operator, and sign them out everywhere. Owners only.',
    answers: { 204: null },
    refusals: ['conflict'],
  },
  'PUT /v1/operators/{operator}/password': {
    about:
      'Set a password, which signs out everywhere else. An owner sets any; an admin its own, and gives the one it had.',
    answers: { 204: null },
  },

  'POST /v1/login': {
    about: 'Sign in by name and password: a token that ends 12 hours after its last use.',
    answers: { 200: answers.login },
    refusals: ['unauthorized', 'rate_limited'],
  },
  'POST /v1/logout': { about: 'End the token that this is asked with.', answers: { 204: null } },
  'POST /v1/login-links': {
    about: 'A link that signs a browser in as this operator: good for 10 minutes, and once.',
    answers: { 201: answers.loginLink },
  },
  'POST /v1/login-codes': {
    about:
      'Six digits by which this operator proves one change in a browser: good for 2 minutes, and once. They replace the ones before.',
    answers: { 201: answers.loginCode },
  },

  'PUT /v1/master-password': {
    about: 'Set, change or, without `new`, remove the master password. Owners only.',
    answers: { 200: answers.keySource },
    refusals: ['conflict'],
  },
  'POST /v1/backup': {
    about: 'A backup of all that is stored, sealed with the master key. Owners only.',
    answers: { 200: 'application/octet-stream' },
  },
  'POST /v1/ca/rotate': {
    about: 'Make the next root, which signs once the overlap is over. Owners only.',
    answers: { 201: answers.caRotation },
    refusals: ['conflict'],
  },
};
