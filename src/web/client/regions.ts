/** The parts of a page that F6 goes through, and what takes the focus in each: the first of it that is shown. */
const REGIONS: readonly (readonly [part: string, focus: string])[] = [
  ['.searching', 'input'],
  ['.band', '[role=slider], a, button'],
  ['.chips', 'a, button'],
  ['.listcol', '[role=listbox], .rows a[aria-current], .rows a, a'],
  ['.spine', '[role=scrollbar]'],
  ['.read', '.rbody, a'],
  ['.page', 'a, button, input'],
  ['.rail', 'a'],
  ['.side', 'a[aria-current], a'],
  ['.bottom', 'a[aria-current], a'],
  ['.foot', 'a'],
];

/** Moves the focus to the next part of the page, or to the one before. */
export function goToRegion(step: 1 | -1): boolean {
  const shown = REGIONS.flatMap(([part, focus]) => {
    const region = document.querySelector(part);
    if (region === null) return [];
    // The spine is a part and takes the focus itself.
    const within = region.matches(focus) ? [region] : [...region.querySelectorAll(focus)];
    const target = within.find(isShown);
    return target instanceof HTMLElement ? [{ region, target }] : [];
  });
  // The spine stands in the column of the list, after it.
  const here = shown.findLastIndex(({ region }) => region.contains(document.activeElement));
  const next = here < 0 ? (step > 0 ? 0 : -1) : (here + step) % shown.length;
  const to = shown.at(next);
  to?.target.focus();
  return to !== undefined;
}

function isShown(element: Element): boolean {
  return element.checkVisibility({ visibilityProperty: true });
}
