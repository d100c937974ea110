/** How a page fits into its window. */
export interface Fit {
  /** Pixels that all of it needs, and pixels that there are. */
  readonly width: number;
  readonly window: number;
  /** Pixels that the window scrolls beyond the page: its columns scroll by themselves. */
  readonly beyond: number;
  /** Text of which a part is hidden for good. */
  readonly cut: readonly string[];
  /** Text in a column that is a few letters wide, and much taller. */
  readonly squeezed: readonly string[];
  /** Links, buttons and fields that lie outside the window and cannot be scrolled to. */
  readonly outside: readonly string[];
}

/** Measures the page that is open; runs in the browser. */
export function cutOff(): Fit {
  const root = document.documentElement;
  const name = (element: Element): string =>
    `${element.localName}.${element.getAttribute('class') ?? ''} "${(element.textContent ?? '').trim().slice(0, 60)}"`;
  // Text for readers of screens is one pixel wide on purpose.
  const isSeen = (element: Element): boolean =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
    element.closest('.vh, .skip, [aria-hidden=true]') === null;
  const scrolls = (element: Element, axis: 'overflowX' | 'overflowY'): boolean =>
    ['auto', 'scroll'].includes(getComputedStyle(element)[axis]);
  const cut: string[] = [];
  const squeezed: string[] = [];
  const outside: string[] = [];
  for (const element of document.body.querySelectorAll('*')) {
    if (!(element instanceof HTMLElement) || !isSeen(element)) continue;
    const style = getComputedStyle(element);
    const ownText = [...element.childNodes].some(
      (node) => node.nodeType === Node.TEXT_NODE && (node.textContent ?? '').trim() !== '',
    );
    const isEllipsis = style.textOverflow === 'ellipsis' || style.webkitLineClamp !== 'none';
    const hides = ['hidden', 'clip'].includes(style.overflowX) && !isEllipsis;
    if (ownText && hides && element.scrollWidth > element.clientWidth + 1) cut.push(name(element));
    const size = Number.parseFloat(style.fontSize);
    const { width: wide, height: tall } = element.getBoundingClientRect();
    if (ownText && wide < 4 * size && tall > 8 * size) squeezed.push(name(element));
    if (element.matches('a[href], button, input, select, textarea, summary')) {
      const { left, right, width } = element.getBoundingClientRect();
      if (width <= 1) continue;
      let at = element.parentElement;
      let reachable = left >= -1 && right <= root.clientWidth + 1;
      while (!reachable && at !== null) {
        reachable = scrolls(at, 'overflowX');
        at = at.parentElement;
      }
      if (!reachable) outside.push(name(element));
    }
  }
  return {
    width: Math.max(root.scrollWidth, document.body.scrollWidth),
    window: root.clientWidth,
    beyond: root.scrollHeight - Math.max(root.clientHeight, document.body.offsetHeight),
    cut,
    squeezed,
    outside,
  };
}
