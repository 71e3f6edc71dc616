/*
 * What makes pages live. Every page works without it. Text becomes text only, never markup: the policy of our pages
 * forbids the rest (`require-trusted-types-for`).
 */

const at = (selector, root = document) => root.querySelector(selector);
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// The token of a link stays in no address bar: the page has it in a cookie already.
if (location.pathname.startsWith('/approve/') && location.search.includes('token=')) {
  history.replaceState(null, '', location.pathname + location.hash);
}

/** What is likely wrong with a value, seen from its form alone; null: nothing. */
function valueHint(value, key) {
  if (value === '') return null;
  if (value === key) return 'This is the name of the credential, not its value.';
  if (/^\s|\s$/.test(value) && !value.includes('\n')) return 'It begins or ends with a space. Is that meant?';
  if (/^(bearer|basic|token)\s/i.test(value))
    return 'It begins with the kind of authentication. The broker adds that itself.';
  if (/^(['"]).*\1$/.test(value)) return 'It stands in quotes. Is that meant?';
  if (/^https?:\/\//i.test(value)) return 'It is an address. Is that meant?';
  return null;
}

for (const field of all('[data-secret]')) watchValue(field);

function watchValue(field) {
  const hint = at(`[data-hint="${field.dataset.secret}"]`);
  field.addEventListener('input', () => {
    if (hint) hint.textContent = valueHint(field.value, field.dataset.secret) ?? '';
  });
}

// A field with room for several lines in place of the other, without loading the page again.
for (const link of all('[data-lines]')) {
  link.addEventListener('click', (event) => {
    const input = at(`input[data-secret="${link.dataset.lines}"]`);
    if (!input) return;
    event.preventDefault();
    const area = document.createElement('textarea');
    for (const { name, value } of [...input.attributes]) if (name !== 'type') area.setAttribute(name, value);
    area.className = 'secret';
    area.rows = 6;
    area.value = input.value;
    input.replaceWith(area);
    watchValue(area);
    link.remove();
    area.focus();
  });
}

// A second click doesn't send a form twice. Coming back to the page, it can be sent again.
for (const form of all('form[data-once]')) {
  form.addEventListener('submit', () => {
    setTimeout(() => {
      for (const button of all('button', form)) button.disabled = true;
    });
  });
}
addEventListener('pageshow', () => {
  for (const button of all('form[data-once] button')) button.disabled = false;
});

/**
 * Listens to server-sent events while the page is seen: browsers give an origin few connections, and pages in the
 * background would use them up.
 * @param handlers by type of event; `open` is called whenever listening has begun
 */
function listen(path, handlers) {
  let source = null;
  function open() {
    if (document.hidden || source) return;
    source = new EventSource(path);
    for (const [type, handle] of Object.entries(handlers)) source.addEventListener(type, handle);
  }
  function close() {
    source?.close();
    source = null;
  }
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  addEventListener('pagehide', close);
  addEventListener('pageshow', open);
  open();
}

const proposalTypes = ['created', 'applied', 'rejected', 'expired', 'cancelled'].map(
  (what) => `proposal.${what}`,
);
const pendingCount = at('[data-pending]');
const openProposal = at('[data-live="proposal"]');

if (pendingCount) {
  const handlers = Object.fromEntries(proposalTypes.map((type) => [type, () => void look()]));
  // Whatever happened while nobody listened.
  listen('/v1/events', { ...handlers, open: () => void look() });
}

async function look() {
  await Promise.allSettled([countPending(), lookAtProposal()]);
}

async function countPending() {
  const answer = await fetch('/live/proposals');
  if (!answer.ok) return;
  const { pending } = await answer.json();
  pendingCount.firstChild.data = String(pending.length);
  pendingCount.hidden = pending.length === 0;
  const news = at('[data-live="proposals"]');
  if (news) news.hidden = pending.every((id) => id <= Number(news.dataset.newest));
}

const outcomes = {
  applied: 'was allowed',
  rejected: 'was denied',
  expired: 'has expired',
  cancelled: 'was withdrawn by the agent',
};

async function lookAtProposal() {
  if (!openProposal) return;
  const { id } = openProposal.dataset;
  const answer = await fetch(`/v1/proposals/${id}`);
  if (!answer.ok) return;
  const { status } = await answer.json();
  if (status === 'pending' || openProposal.childElementCount > 0) return;
  const text = document.createElement('p');
  const link = document.createElement('a');
  link.href = `/approve/${id}`;
  link.textContent = 'See what happened';
  text.append(`This proposal ${outcomes[status]} in the meantime. `, link, '.');
  openProposal.className = 'notice';
  openProposal.append(text);
  for (const button of all('main button')) button.disabled = true;
}

// Requests as they happen, the newest first.
const requests = at('[data-live="requests"]');
if (requests) {
  const rows = at('#requests');
  const row = at('#request-row').content;
  const most = Number(requests.dataset.most);
  listen(requests.dataset.from, {
    open: () => {
      requests.textContent = 'Live: new requests show at the top.';
    },
    error: () => {
      requests.textContent = 'The connection is lost. Trying again.';
    },
    request: ({ data }) => {
      const cells = JSON.parse(data);
      const next = row.cloneNode(true);
      for (const cell of all('[data-cell]', next)) {
        const name = cell.dataset.cell;
        if (name === 'why') cell.href = cells.why;
        else cell.textContent = cells[name];
        if (name === 'status') cell.className = cells.tone;
        if (name === 'clock') cell.dateTime = cells.time;
      }
      rows.prepend(next);
      while (rows.childElementCount > most) rows.lastElementChild.remove();
      at('[data-empty]')?.remove();
    },
  });
}

// Charts: as many bars as there were, of other heights.
if (at('[data-live="stats"]')) {
  listen('/live/stats', {
    stats: ({ data }) => {
      for (const { id, figure, note, bars } of JSON.parse(data)) {
        at(`[data-figure="${id}"]`).textContent = figure;
        at(`[data-note="${id}"]`).textContent = note;
        for (const [i, bar] of all(`[data-chart="${id}"] g rect`).entries()) {
          bar.setAttribute('height', bars[i]);
          bar.setAttribute('y', 56 - bars[i]);
        }
      }
    },
  });
}
