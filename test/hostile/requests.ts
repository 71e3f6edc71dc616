import { cuts } from '../fuzz/mutate.ts';
import { type Random, random } from '../fuzz/random.ts';
import { requestExample } from '../fuzz/requests.ts';
import { type Attack, attack, type Making } from './attack.ts';
import { bomb, nearly, template } from './bombs.ts';
import { echo, misplaced } from './echoes.ts';
import { broken, oddUpstream, pipelined, smuggled } from './smuggling.ts';

/** Where the upstreams listen. */
export interface Ports {
  readonly secure: number;
  readonly plain: number;
}

/** A stream of the fuzz grammar, to a name of its own: that is how its requests are found again. */
function malformed({ chance, authority, index }: Making): Attack {
  const host = `f${index}.fuzz.test`;
  const { bytes } = requestExample(chance, authority(host, false));
  const text = bytes.latin1Slice();
  return attack({
    kind: 'malformed',
    host,
    tls: false,
    text,
    cuts: cuts(chance, bytes, bytes.length),
    answers: 0,
  });
}

/** What is sent, and how often of a hundred. */
const kinds: readonly (readonly [number, (making: Making) => Attack])[] = [
  [14, bomb],
  [4, template],
  [7, nearly],
  [25, echo],
  [10, misplaced],
  [12, smuggled],
  [5, broken],
  [5, pipelined],
  [10, oddUpstream],
  [8, malformed],
];

function pick(chance: Random): (making: Making) => Attack {
  let left = chance.below(100);
  for (const [share, make] of kinds) {
    if (left < share) return make;
    left -= share;
  }
  throw new Error('the shares are less than a hundred');
}

/** The hostile request of this number: the same for the same seed and ports. */
export function hostile(seed: number, index: number, ports: Ports): Attack {
  const chance = random(seed, index);
  return pick(chance)({
    chance,
    index,
    authority: (host, tls = true) => `${host}:${tls ? ports.secure : ports.plain}`,
    mark: (behaviour) => `h${index}~${behaviour}`,
  });
}
