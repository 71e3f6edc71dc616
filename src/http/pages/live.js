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

/*
 * Forms are signed, each by itself, with a key that lies in this origin's storage: cookies know no port, so a page of
 * another port of this host has ours, but not the key. It can't be read, not even here. See `signature.ts`.
 */

function inStore(mode, act) {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open('broker', 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore('keys');
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      const done = act(database.transaction('keys', mode).objectStore('keys'));
      done.transaction.oncomplete = () => {
        resolve(done.result);
        database.close();
      };
      done.transaction.onabort = () => reject(done.transaction.error);
    };
  });
}

/** The pair of keys of this origin. Of two pages that make one at once, both take the first. */
async function originKey(make) {
  const found = await inStore('readonly', (keys) => keys.get('origin'));
  if (found || !make) return found;
  const made = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, [
    'sign',
    'verify',
  ]);
  await inStore('readwrite', (keys) => keys.add(made, 'origin')).catch(() => {});
  return inStore('readonly', (keys) => keys.get('origin'));
}

const base64url = (bytes) =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace(/=+$/, '');

/** What goes into the field `proof.signature`; null: this page has no key, or can't sign. */
async function signatureFor(url, fields, make) {
  try {
    const keys = await originKey(make);
    if (!keys) return null;
    // A form that can't be signed soon is sent as it is: then it is asked for a password or a code.
    const asked = await fetch('/login/challenge', { signal: AbortSignal.timeout(5000) });
    const { challenge } = await asked.json();
    const signed = [...fields]
      .map(([name, value]) => [name, value.replace(/\r\n?/g, '\n')])
      .sort(([a], [b]) => (a < b ? -1 : 1));
    const target = url.pathname + url.search;
    const text = JSON.stringify(['broker form', 'POST', target, challenge, signed]);
    const algorithm = { name: 'ECDSA', hash: 'SHA-256' };
    const value = await crypto.subtle.sign(algorithm, keys.privateKey, new TextEncoder().encode(text));
    const key = await crypto.subtle.exportKey('raw', keys.publicKey);
    return `${base64url(key)}.${challenge}.${base64url(value)}`;
  } catch {
    return null;
  }
}

// We have no service worker: one that is there was planted by whoever held our port before. See `service-worker.ts`.
void navigator.serviceWorker?.getRegistrations().then((planted) => {
  for (const each of planted) void each.unregister();
});

// Where the page isn't a secure context there is no such key: then its forms have fields for a password or a code.
const canSign = globalThis.isSecureContext && globalThis.indexedDB !== undefined;

/** The form that is being sent: signed, or about to be. */
let sending = null;
addEventListener(
  'submit',
  (event) => {
    const { target: form, submitter } = event;
    if (!canSign || form.method !== 'post' || sending?.isSigned) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (sending !== null) return;
    sending = { isSigned: false };
    void signAndSend(form, submitter);
  },
  true,
);

async function signAndSend(form, submitter) {
  const url = new URL(submitter?.getAttribute('formaction') ?? form.getAttribute('action'), location.href);
  at('[name="proof.signature"]', form)?.remove();
  const fields = [...new FormData(form)];
  if (submitter?.name) fields.push([submitter.name, submitter.value]);
  const signature = await signatureFor(url, fields, url.pathname === '/login');
  if (signature !== null) {
    const field = document.createElement('input');
    field.type = 'hidden';
    field.name = 'proof.signature';
    field.value = signature;
    form.append(field);
  }
  sending = { isSigned: true };
  form.requestSubmit(submitter);
  sending = null;
}

/** Whether this origin's session has got a cookie again, in place of one that another port has overwritten. */
function resume() {
  resuming ??= tryResume().finally(() => {
    resuming = null;
  });
  return resuming;
}

let resuming = null;

async function tryResume() {
  if (!canSign) return false;
  const url = new URL('/login/resume', location.href);
  const signature = await signatureFor(url, [], false);
  if (signature === null) return false;
  const body = new URLSearchParams({ 'proof.signature': signature });
  return (await fetch(url, { method: 'POST', body }).catch(() => null))?.ok ?? false;
}

// Who is asked to sign in although they are. Some times in a row: where the cookie doesn't stay, the form does.
const resumable = at('[data-resume]');
if (resumable) void resumePage(resumable.dataset.resume);

async function resumePage(path) {
  const times = JSON.parse(sessionStorage.getItem('resumed') ?? '[]').filter(
    (time) => Date.now() - time < 10_000,
  );
  if (times.length >= 5 || !(await resume())) return;
  sessionStorage.setItem('resumed', JSON.stringify([...times, Date.now()]));
  location.replace(path);
}

/** Asks for something of ours, once more where the cookie was overwritten meanwhile. */
async function ask(path) {
  const answer = await fetch(path);
  return answer.status === 401 && (await resume()) ? fetch(path) : answer;
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
  if (/^[^\n]*\n+$/.test(value)) return 'It ends with a line break, which no header can carry.';
  if (/[^\0-\xff]/.test(value))
    return 'It has letters or signs that no header can carry, such as curly quotes.';
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

// Only where the browser lets a page do it: over https, and on the machine itself.
if (navigator.clipboard) {
  for (const button of all('[data-copy]')) {
    button.hidden = false;
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(at(`#${button.dataset.copy}`).textContent);
      button.textContent = 'Copied';
    });
  }
}

// A second click doesn't send a form twice. Coming back to the page, it can be sent again.
let isSending = false;
for (const form of all('form[data-once]')) {
  form.addEventListener('submit', () => {
    isSending = true;
    setTimeout(() => {
      for (const button of all('button', form)) button.disabled = true;
    });
  });
}
addEventListener('pageshow', () => {
  isSending = false;
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
    source.addEventListener('error', () => void reopen(source));
  }
  // Refused, not merely broken off: the cookie isn't ours any more.
  async function reopen(refused) {
    if (refused.readyState !== EventSource.CLOSED || refused !== source) return;
    const isBack = await resume();
    if (refused !== source) return;
    close();
    if (isBack) open();
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

// What was meant for a window in front of this one decides nothing: clicks (“double-clickjacking”), and keys that are
// typed on while another page opens this one. For a second after the page has come to the front it takes neither, and each
// that comes begins the second anew. A key that is held down decides nothing either.
if (openProposal) {
  let settled;
  const settle = () => {
    document.body.classList.add('settling');
    clearTimeout(settled);
    settled = setTimeout(() => document.body.classList.remove('settling'), 1000);
  };
  const hold = (event) => {
    const isShortcut = event.ctrlKey || event.metaKey || event.altKey;
    const isHeld = event.repeat && (event.key === 'Enter' || event.key === ' ');
    const isSettling = document.body.classList.contains('settling');
    if (!isHeld && (!isSettling || isShortcut)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (isSettling) settle();
  };
  for (const type of ['keydown', 'click']) addEventListener(type, hold, true);
  addEventListener('focus', settle);
  document.addEventListener('visibilitychange', settle);
  settle();
  // Nor does whoever opens it say where the keyboard begins.
  if (location.hash !== '') history.replaceState(null, '', location.pathname + location.search);
  at('#main').focus({ preventScroll: true });
}

if (pendingCount) {
  const handlers = Object.fromEntries(proposalTypes.map((type) => [type, () => void look()]));
  // Whatever happened while nobody listened.
  listen('/v1/events', { ...handlers, open: () => void look() });
}

async function look() {
  await Promise.allSettled([countPending(), lookAtProposal()]);
}

async function countPending() {
  const answer = await ask('/live/proposals');
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
  const answer = await ask(`/v1/proposals/${id}`);
  if (!answer.ok) return;
  const { status } = await answer.json();
  // What this page itself has just sent is told by the answer to it.
  if (status === 'pending' || isSending || openProposal.childElementCount > 0) return;
  const text = document.createElement('p');
  const link = document.createElement('a');
  link.href = `/approve/${id}`;
  link.textContent = 'See what happened';
  text.append(`This proposal ${outcomes[status]} in the meantime. `, link, '.');
  openProposal.className = 'notice';
  openProposal.append(text);
  for (const button of all('main button')) button.disabled = true;
}

// Requests as they happen, the newest first. The rows stay where they are and pass their texts on, so that nothing
// moves; and not while somebody points at one of them, or has gone to it by keyboard.
const requests = at('[data-live="requests"]');
if (requests) {
  const rows = at('#requests');
  const blank = at('#request-row').content.firstElementChild;
  const most = Number(requests.dataset.most);
  const live = 'Live: new requests show at the top.';
  // All that there is, as the stream begins with it, and what has come since.
  let whole = null;
  let fresh = [];
  let isDue = false;

  function show() {
    isDue = false;
    if (fresh.length === 0 && whole === null) return;
    if (rows.matches(':hover, :focus-within')) {
      if (fresh.length > 0) requests.textContent = `${fresh.length} new, shown when you leave the list.`;
      return;
    }
    requests.textContent = live;
    const shown = [...fresh, ...(whole ?? [...rows.children].map(cellsOf))].slice(0, most);
    whole = null;
    fresh = [];
    if (shown.length === 0) return;
    while (rows.childElementCount < shown.length) rows.append(blank.cloneNode(true));
    for (const [i, cells] of shown.entries()) fillRow(rows.children[i], cells);
    at('[data-empty]')?.remove();
  }

  rows.addEventListener('pointerleave', show);
  rows.addEventListener('focusout', () => setTimeout(show));
  listen(requests.dataset.from, {
    open: () => {
      requests.textContent = live;
    },
    error: () => {
      requests.textContent = 'The connection is lost. Trying again.';
    },
    request: ({ data }) => {
      fresh = [JSON.parse(data), ...fresh].slice(0, most);
      if (!isDue) setTimeout(show, 200);
      isDue = true;
    },
    requests: ({ data }) => {
      whole = JSON.parse(data);
      fresh = [];
      show();
    },
  });
}

function cellsOf(row) {
  const cells = Object.fromEntries(
    all('[data-cell]', row).map((cell) => [cell.dataset.cell, cell.textContent]),
  );
  const { dateTime } = at('time', row);
  return {
    ...cells,
    time: dateTime,
    tone: at('[data-tone]', row).dataset.tone,
    why: at('a', row).getAttribute('href'),
  };
}

function fillRow(row, cells) {
  const { tone, time, why } = cells;
  for (const cell of all('[data-tone]', row)) cell.dataset.tone = tone;
  at('time', row).dateTime = time;
  at('a', row).setAttribute('href', why);
  for (const cell of all('[data-cell]', row)) {
    const text = cells[cell.dataset.cell];
    cell.textContent = text;
    cell.title = cell.dataset.cell === 'clock' ? time : text;
  }
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
