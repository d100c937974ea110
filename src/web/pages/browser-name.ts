/** In this order: most browsers name others as well. */
const BROWSERS: readonly (readonly [name: string, mark: RegExp])[] = [
  ['Edge', /\bEdg\/(\d{1,4})/],
  ['Opera', /\bOPR\/(\d{1,4})/],
  ['Firefox', /\bFirefox\/(\d{1,4})/],
  ['Chrome', /Chrome\/(\d{1,4})/],
  ['Safari', /\bVersion\/(\d{1,4})/],
];
const SYSTEMS: readonly (readonly [name: string, mark: RegExp])[] = [
  ['Android', /\bAndroid\b/],
  ['iPhone', /\biPhone\b/],
  ['iPad', /\biPad\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac OS X\b/],
  ['Linux', /\bLinux\b/],
];

/** Returns what people call a browser by what it calls itself: `Firefox 145 on Linux`; else that, as it is. */
export function browserName(agent: string): string {
  const system = SYSTEMS.find(([, mark]) => mark.test(agent))?.[0];
  for (const [name, mark] of BROWSERS) {
    const version = mark.exec(agent)?.[1];
    if (version !== undefined)
      return `${name} ${version}${system === undefined ? '' : ` on ${system}`}`;
  }
  return agent === '' ? 'A browser without a name' : agent;
}
