'use strict';
(() => {
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  document.documentElement.classList.add('scripted');

  // Examples call where the page came from, unless the document names a server.
  if (location.protocol.startsWith('http')) {
    for (const origin of all('.origin')) origin.textContent = location.origin;
  }

  // A link to an operation or a schema opens it.
  const open = () => {
    let target = null;
    try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    if (target && target.tagName === 'DETAILS') {
      target.open = true;
      target.scrollIntoView();
      target.querySelector('summary').focus({ preventScroll: true });
    }
  };
  addEventListener('hashchange', open);
  for (const link of all('a[href^="#"]')) link.addEventListener('click', () => setTimeout(open));
  open();

  const operations = all('details.operation');
  const find = document.getElementById('find');
  find.addEventListener('input', () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = element => words.every(word => element.dataset.words.includes(word));
    for (const element of all('[data-words]')) element.hidden = !fits(element);
    for (const group of all('[data-group]')) group.hidden = !all('[data-words]', group).some(element => !element.hidden);
  });

  const toggle = document.getElementById('toggle');
  toggle.addEventListener('click', () => {
    const opens = operations.some(operation => !operation.open && !operation.hidden);
    for (const operation of operations) operation.open = opens;
    toggle.textContent = opens ? 'Close all' : 'Open all';
  });

  for (const button of all('button.copy')) {
    button.addEventListener('click', async () => {
      const text = button.parentElement.querySelector('code').textContent;
      try {
        await navigator.clipboard.writeText(text);
        button.textContent = 'Copied';
      } catch {
        getSelection().selectAllChildren(button.parentElement.querySelector('code'));
        button.textContent = 'Selected';
      }
    });
  }

  // On a wide screen the list stands beside the operations.
  const list = document.getElementById('list');
  const wide = matchMedia('(min-width:1000px)');
  const unfold = () => { list.open = wide.matches; };
  wide.addEventListener('change', unfold);
  unfold();
})();
