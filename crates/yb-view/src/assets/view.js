// Keys, live updates and the address. Without scripts every page works; it is only not live.
const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const get = (id) => document.getElementById(id);

// The token is a cookie from now on, and does not belong into the history or a copied address.
const address = new URL(location.href);
if (address.searchParams.has('token')) {
  address.searchParams.delete('token');
  history.replaceState(null, '', address);
}

// Steps of a conversation have numbers, so that an address can name one.
const steps = all('.talk > .said-by, .talk > .tool, .talk > .pair');
steps.forEach((step, at) => { step.id = 'step-' + (at + 1); step.tabIndex = -1; });
const rows = () => all('[data-row] a.go').filter((link) => link.offsetParent !== null);

const select = (step) => {
  steps.forEach((one) => one.classList.toggle('here', one === step));
  step.scrollIntoView({ block: 'center' });
  step.focus({ preventScroll: true });
  history.replaceState(null, '', '#' + step.id);
};
const named = () => steps.find((step) => '#' + step.id === location.hash);
if (named()) select(named());
addEventListener('hashchange', () => { if (named()) select(named()); });

const move = (by) => {
  const links = rows();
  if (links.length) {
    const at = links.indexOf(document.activeElement);
    const next = links[Math.min(Math.max(at + by, 0), links.length - 1)];
    next.focus();
    next.scrollIntoView({ block: 'nearest' });
  } else if (steps.length) {
    const at = steps.findIndex((step) => step.classList.contains('here'));
    select(steps[Math.min(Math.max(at + by, 0), steps.length - 1)]);
  }
};

// A page that the browser kept has the focus where it was left.
addEventListener('pageshow', (event) => { if (event.persisted) document.activeElement?.blur(); });

// The next and the previous trial or step.
const follow = (rel) => { const link = document.querySelector('a[rel=' + rel + ']'); if (!link) return false; location.assign(link.href); return true; };
const slider = get('slider');
if (slider) {
  slider.addEventListener('change', () => {
    const target = new URL(location.href);
    target.searchParams.set('step', slider.dataset.keys.split(' ')[slider.value]);
    target.hash = '';
    location.assign(target);
  });
}

// Labels of a reviewer.
const choose = (at) => { const radio = all('.review input[type=radio]')[at]; if (!radio) return false; radio.checked = true; radio.focus(); return true; };

const help = get('keys');
const toggleHelp = () => { if (help.open) help.close(); else help.showModal(); };
get('help').hidden = false;
get('help').addEventListener('click', toggleHelp);
addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches('input:not([type=radio]):not([type=range]), textarea, select')) {
    if (event.key === 'Escape') event.target.blur();
    return;
  }
  const search = get('search');
  const up = all('.path a').at(-2);
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    '/': () => search && search.focus(),
    '?': toggleHelp,
    n: () => follow('next'),
    p: () => follow('prev'),
    1: () => choose(0),
    2: () => choose(1),
    3: () => choose(2),
    c: () => { const field = document.querySelector('.review [name=category]'); if (!field) return false; field.focus(); return true; },
    s: () => { const form = document.querySelector('form.review'); if (!form) return false; form.requestSubmit(); return true; },
    u: () => up && location.assign(up.href),
    Enter: () => { const step = steps.find((one) => one === document.activeElement); if (step && 'open' in step) step.open = !step.open; else return false; return true; },
  };
  if (!(event.key in actions)) return;
  if (actions[event.key]() !== false) event.preventDefault();
});

// Elapsed times count on between two events.
const two = (number) => String(number).padStart(2, '0');
const elapsed = (seconds) => {
  if (seconds < 60) return seconds + ' s';
  if (seconds < 3600) return Math.floor(seconds / 60) + 'm ' + two(seconds % 60) + 's';
  return Math.floor(seconds / 3600) + 'h ' + two(Math.floor(seconds / 60) % 60) + 'm';
};
const tick = () => all('time.since').forEach((time) => {
  time.textContent = elapsed(Math.max(0, Math.round((Date.now() - Date.parse(time.dateTime)) / 1000)));
});

// Replaces the parts of the page that may have changed, at most every two seconds and not while a text is typed.
let wanted = false, busy = false;
const refresh = async () => {
  if (busy || document.hidden || document.activeElement?.matches('input, textarea, select')) { wanted = true; return; }
  busy = true;
  wanted = false;
  try {
    const response = await fetch(location.href);
    if (response.ok) {
      const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
      const focused = document.activeElement?.getAttribute('href');
      all('[data-refresh]').forEach((part) => {
        const other = fresh.querySelector('[data-refresh="' + part.dataset.refresh + '"]');
        if (other) part.replaceWith(document.adoptNode(other));
      });
      if (focused) all('[data-row] a.go').find((link) => link.getAttribute('href') === focused)?.focus({ preventScroll: true });
    }
  } catch { /* the state in the header says so */ }
  setTimeout(() => { busy = false; if (wanted) refresh(); }, 2000);
};
document.addEventListener('visibilitychange', () => { if (wanted) refresh(); });

const events = document.body.dataset.events;
if (events) {
  const state = get('state');
  let source = null, ended = false;
  const connect = () => {
    if (source || ended) return;
    source = new EventSource(events);
    source.addEventListener('open', () => { state.textContent = get('live') ? 'live' : ''; });
    source.addEventListener('error', () => { state.textContent = 'not connected: is yb view running?'; });
    source.addEventListener('changed', refresh);
    source.addEventListener('progress', (event) => {
      const { html, active } = JSON.parse(event.data);
      // Rendered and escaped by the server, as the page itself.
      get('live').innerHTML = html;
      tick();
      refresh();
      if (active) return;
      ended = true;
      disconnect();
      state.textContent = 'ended';
      setTimeout(() => location.reload(), 500);
    });
  };
  const disconnect = () => { if (source) source.close(); source = null; };
  // A browser has six connections for all its tabs, so only visible ones use one.
  const show = () => { if (document.hidden) disconnect(); else connect(); };
  document.addEventListener('visibilitychange', () => { if (!document.hidden && !get('live')) refresh(); show(); });
  show();
  tick();
  setInterval(tick, 1000);
}
