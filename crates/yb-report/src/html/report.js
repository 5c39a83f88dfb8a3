// Theme, filters, sorting and navigation. Without scripts, the page shows everything in sequence.
(() => {
  'use strict';
  const root = document.documentElement;
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const keep = { get: () => { try { return localStorage.getItem('yb-theme'); } catch { return null; } },
    set: (theme) => { try { localStorage.setItem('yb-theme', theme); } catch { /* only this page remembers */ } } };
  const shown = () => root.dataset.theme || (dark.matches ? 'dark' : 'light');
  const apply = (theme) => { if (theme === 'light' || theme === 'dark') root.dataset.theme = theme; root.dataset.shown = shown(); };
  apply(keep.get());
  dark.addEventListener('change', () => apply());

  addEventListener('DOMContentLoaded', () => {
    const all = (selector, from = document) => [...from.querySelectorAll(selector)];
    const get = (id) => document.getElementById(id);
    get('theme').addEventListener('click', () => { const next = shown() === 'dark' ? 'light' : 'dark'; apply(next); keep.set(next); });

    // Long texts are clipped; a button expands them.
    const clip = (from) => all('.clip', from).forEach((box) => {
      if (box.dataset.done || box.scrollHeight <= box.clientHeight + 4 || !box.clientHeight) return;
      box.dataset.done = '1';
      box.tabIndex = 0;
      const more = document.createElement('button');
      more.type = 'button';
      more.className = 'more';
      const name = () => { const open = box.classList.contains('whole'); more.textContent = open ? 'show less' : 'show all'; more.setAttribute('aria-expanded', String(open)); };
      more.addEventListener('click', () => { box.classList.toggle('whole'); name(); });
      name();
      box.after(more);
    });
    addEventListener('toggle', (event) => { if (event.target.open) clip(event.target); }, true);
    all('.unfold').forEach((button) => {
      const tools = () => all('.tool', button.closest('.talk'));
      button.hidden = !tools().length;
      button.addEventListener('click', () => {
        const open = tools().some((tool) => !tool.open);
        tools().forEach((tool) => { tool.open = open; });
        button.textContent = open ? 'collapse all tool calls' : 'expand all tool calls';
      });
    });

    // In a single file, the URL fragment selects the trial.
    const views = all('.view');
    const route = (event) => {
      if (!views.length) return;
      const id = decodeURIComponent(location.hash.slice(1));
      const target = id && get(id);
      if (event && target && !target.closest('.view')) return;
      const view = (target && target.closest('.view')) || views[0];
      const changed = view.hidden || !event;
      views.forEach((one) => { one.hidden = one !== view; });
      clip(view);
      if (!changed) return;
      const heading = view.querySelector('h1');
      if (event && view !== views[0] && heading) heading.focus({ preventScroll: true });
      if (target && target !== view) target.scrollIntoView(); else scrollTo(0, 0);
    };
    addEventListener('hashchange', route);
    route();
    // Override the scroll position of the browser.
    addEventListener('load', () => { if (views.length && views[0].hidden) scrollTo(0, 0); });
    clip(document);

    const list = get('list');
    if (!list) return;
    const rows = all('tbody tr', list);
    const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
    const filters = { outcome: '', text: '', only: null };
    const filter = () => {
      let count = 0;
      rows.forEach((row) => {
        const data = row.dataset;
        const fits = (!filters.outcome || data.outcome === filters.outcome) && (!filters.text || texts.get(row).includes(filters.text)) &&
          (!filters.only || ['run', 'case', 'variant', 'outcome'].every((key) => !filters.only[key] || data[key] === filters.only[key]));
        row.hidden = !fits;
        count += fits ? 1 : 0;
      });
      get('shown').textContent = count === rows.length ? '' : count + ' of ' + rows.length;
      get('empty').hidden = count > 0;
      const only = get('only');
      only.hidden = !filters.only;
      const name = filters.only ? [filters.only.case, filters.only.variant, filters.only.outcome].filter(Boolean).join(' / ') : '';
      only.textContent = name ? name + ' ×' : '';
      only.setAttribute('aria-label', name ? 'remove the filter ' + name : '');
    };
    const chips = all('.chips .chip');
    chips.forEach((chip) => chip.addEventListener('click', () => {
      filters.outcome = chip.dataset.outcome;
      chips.forEach((one) => one.setAttribute('aria-pressed', String(one === chip)));
      filter();
    }));
    get('search').addEventListener('input', (event) => { filters.text = event.target.value.trim().toLowerCase(); filter(); });
    get('only').addEventListener('click', () => { filters.only = null; filter(); });
    all('a.filter').forEach((link) => link.addEventListener('click', (event) => {
      event.preventDefault();
      filters.only = { ...link.dataset };
      filter();
      get('trials').scrollIntoView({ block: 'start' });
      get('only').focus({ preventScroll: true });
    }));

    const heads = all('th', list);
    heads.forEach((head, at) => head.querySelector('button').addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      heads.forEach((one) => one.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const number = head.classList.contains('num');
      const key = (row) => { const cell = row.cells[at]; return number ? (cell.dataset.v === '' ? -1 : Number(cell.dataset.v)) : cell.textContent; };
      const keyed = rows.map((row, place) => ({ row, place, key: key(row) }));
      keyed.sort((a, b) => (number ? a.key - b.key : a.key.localeCompare(b.key, undefined, { numeric: true })) * (down ? -1 : 1) || a.place - b.place);
      list.tBodies[0].append(...keyed.map((one) => one.row));
    }));
  });
})();
