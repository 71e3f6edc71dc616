import type { Service, ServiceInput } from '../src/actors/vault/model.ts';
import { dialogue, type Prompts } from './prompts.ts';
import { askService } from './service-questions.ts';
import { note } from './terminal.ts';
import { formatYaml } from './yaml.ts';

interface Start {
  readonly vault: string;
  readonly services: readonly Service[];
  /** Keys of the vault's credentials. */
  readonly keys: readonly string[];
}

/** What the dialogue makes: a service that is enabled again says so, since left out it would stay as it is. */
type Built = Omit<Service, 'enabled'> & Pick<ServiceInput, 'enabled'>;

/**
 * Builds the services of a vault in a dialogue on the terminal; null: the user leaves without saving.
 * @throws {Failure} exit code 130, interrupted
 */
export function buildServices(start: Start): Promise<readonly Built[] | null> {
  return dialogue(async (prompts) => {
    let list: readonly Built[] = start.services;
    for (;;) {
      const chosen = await prompts.choose<Built | 'add' | 'save' | 'leave'>(
        `Services of vault ${start.vault}`,
        [
          ...list.map((service) => ({ name: describe(service), value: service })),
          { name: '+ Add a service', value: 'add' },
          { name: 'Look at all of it, and save', value: 'save' },
          { name: 'Leave without saving', value: 'leave' },
        ],
        list.length === 0 ? 'add' : undefined,
      );
      if (chosen === 'leave') return null;
      if (chosen === 'save') {
        note(`\n${formatYaml({ services: list })}`);
        if (await prompts.agree(`Make these the services of vault ${start.vault}?`, true)) return list;
      } else list = await change(prompts, list, chosen === 'add' ? null : chosen, start.keys);
    }
  });
}

function describe({ host, auth, enabled }: Built): string {
  return `${host} (${auth.type}${enabled === false ? ', disabled' : ''})`;
}

/** The list with one service added, changed or removed. */
async function change(
  prompts: Prompts,
  list: readonly Built[],
  service: Built | null,
  keys: readonly string[],
): Promise<readonly Built[]> {
  const others = list.filter((each) => each !== service) as readonly Service[];
  if (service === null) return [...list, await askService({ prompts, keys, others })];
  const isDisabled = service.enabled === false;
  const what = await prompts.choose(service.host, [
    { name: 'Set it up anew', value: 'anew' },
    { name: isDisabled ? 'Enable' : 'Disable', value: 'turn' },
    { name: 'Remove', value: 'remove' },
    { name: 'Back', value: 'back' },
  ]);
  const replaced = (by: Built) => list.map((each) => (each === service ? by : each));
  switch (what) {
    case 'anew': {
      const anew = await askService({ prompts, keys, others, host: service.host });
      return replaced(isDisabled ? { ...anew, enabled: false } : anew);
    }
    case 'turn':
      return replaced({ ...service, enabled: isDisabled });
    case 'remove':
      return others;
    default:
      return list;
  }
}
