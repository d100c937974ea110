/** What documents hold that none of ours may hold. These run in the browser: each must be complete in itself. */

/**
 * Returns what the framed HTML of a mail holds, as the browser has parsed it, that could run or load something.
 *
 * @param texts paragraphs that must be there
 */
export function oddInMail(texts: readonly string[]): string[] {
  const loads = [
    'src',
    'srcset',
    'href',
    'xlink:href',
    'action',
    'formaction',
    'background',
    'poster',
    'data',
    'ping',
    'cite',
    'longdesc',
    'manifest',
    'srcdoc',
  ];
  const refused =
    'script,iframe,frame,frameset,object,embed,applet,base,form,input,button,select,textarea,svg,math,template,noscript,link,dialog,portal,video,audio,source,track,picture';
  const odd = [...document.querySelectorAll(refused)].map(({ outerHTML }) => outerHTML);
  // The first one is ours, and no other one could take anything of it back.
  const [policy, ...others] = document.querySelectorAll('meta[http-equiv]');
  if (policy?.getAttribute('content')?.startsWith("default-src 'none'; img-src data:;") !== true)
    odd.push('no policy of its own');
  for (const meta of others) odd.push(meta.outerHTML);
  // An element with that id is no script's mark.
  const isNamed = 'ran' in window && /^\[object HTML/.test(String(window.ran));
  if ('ran' in window && !isNamed) odd.push(`the mark of a script: ${String(window.ran)}`);
  for (const element of document.querySelectorAll('*')) {
    if (element.shadowRoot !== null) odd.push(`a shadow below ${element.localName}`);
    for (const { name, value } of element.attributes) {
      const isOwn = name === 'href' && /^\/away\?to=(?:https?|mailto)%3A/i.test(value);
      const isAnchor = name === 'href' && value.startsWith('#');
      const isPicture = name === 'src' && /^data:image\/(?:png|jpeg|gif|webp|bmp)[;,]/.test(value);
      if (/^on/i.test(name) || (loads.includes(name) && !isOwn && !isAnchor && !isPicture))
        odd.push(`${element.localName} ${name}=${value}`);
    }
  }
  const loading =
    /(?:url|src|image-set|cross-fade|element|paint|attr|expression)\(|@import|@font-face|behavior:|-moz-binding/i;
  for (const sheet of document.styleSheets)
    for (const rule of sheet.cssRules) if (loading.test(rule.cssText)) odd.push(rule.cssText);
  for (const styled of document.querySelectorAll('[style]'))
    if (loading.test(styled.getAttribute('style') ?? '')) odd.push(styled.outerHTML);
  for (const element of document.querySelectorAll('*'))
    if (/fixed|sticky/.test(getComputedStyle(element).position)) odd.push(element.outerHTML);
  const said = new Set([...document.querySelectorAll('p')].map((p) => p.textContent?.trim()));
  for (const text of texts) if (!said.has(text)) odd.push(`no "${text}"`);
  return odd.map((text) => text.slice(0, 300));
}

/**
 * Returns what a page of ours holds that no page of ours makes.
 *
 * @param texts what the message that is read must show
 */
export function oddInPage(texts: readonly string[] = []): string[] {
  const odd: string[] = 'ran' in window ? [`the mark of a script: ${String(window.ran)}`] : [];
  const frames = /^\/m\/[0-9a-f]+\/html$/;
  for (const element of document.querySelectorAll('*')) {
    const { localName } = element;
    for (const { name, value } of element.attributes) {
      if (/^on/i.test(name) || name === 'srcdoc') odd.push(`${localName} ${name}`);
      if (!/^(?:src|href|action|formaction|data|srcset|poster|xlink:href)$/.test(name)) continue;
      // What a sender wrote leads through the page that shows it.
      const isOwn = /^(?:\/(?!\/)|[#?])/.test(value) || value.startsWith(`${location.origin}/`);
      if (!isOwn && location.pathname !== '/away') odd.push(`${localName} ${name}=${value}`);
    }
    if (element instanceof HTMLIFrameElement) {
      const isConfined = !/allow-(?:scripts|same-origin|forms|top)/.test(element.sandbox.value);
      if (
        !element.hasAttribute('sandbox') ||
        !isConfined ||
        !frames.test(new URL(element.src).pathname)
      )
        odd.push(element.outerHTML);
    }
    if (element instanceof HTMLScriptElement) {
      const isOwn = element.src.startsWith(`${location.origin}/assets/`);
      if (!isOwn && element.type !== 'application/json') odd.push(element.outerHTML);
    }
    if (/^(?:object|embed|base|style|math|foreignobject)$/i.test(localName))
      odd.push(element.outerHTML);
  }
  const read = document.querySelector('.read')?.textContent ?? '';
  for (const text of texts) if (!read.includes(text)) odd.push(`no "${text}"`);
  return odd.map((text) => text.slice(0, 300));
}
