/** How many pictures of other servers a page was to show, by host. None is ever fetched. */
export type RemotePictures = Readonly<Record<string, number>>;

/** What addresses without a host of their own are resolved against: a message is at no address. */
const NOWHERE = 'https://message.invalid/';

/**
 * Returns the servers that a browser might ask for a picture: by `src`, and by the candidates of `srcset`. Without a
 * protocol (`//host/picture`) they are servers as well.
 */
export function remoteHosts({
  src = '',
  srcset = '',
}: Readonly<Record<string, string>>): ReadonlySet<string> {
  const hosts = new Set<string>();
  for (const address of [src, ...candidates(srcset)]) {
    const uri = address.trim();
    if (uri === '' || !URL.canParse(uri, NOWHERE)) continue;
    const { protocol, host } = new URL(uri, NOWHERE);
    const isRemote = protocol === 'http:' || protocol === 'https:';
    if (isRemote && host !== 'message.invalid') hosts.add(host);
  }
  return hosts;
}

/** The addresses of a `srcset`: each ends at a blank, or with a comma; what follows it, up to a comma, describes it. */
function candidates(srcset: string): string[] {
  const found: string[] = [];
  let isAddress = true;
  for (const word of srcset.split(/\s/)) {
    // Behind the comma that ends a description, the next address may follow without a blank.
    const from = isAddress ? 0 : word.indexOf(',') + 1;
    const isDescription = !isAddress && from === 0;
    if (word === '' || isDescription) continue;
    const address = withoutCommas(word.slice(from));
    if (address !== '') found.push(address);
    isAddress = address === '' || word.endsWith(',');
  }
  return found;
}

function withoutCommas(word: string): string {
  let [from, to] = [0, word.length];
  while (word[from] === ',') from += 1;
  while (to > from && word[to - 1] === ',') to -= 1;
  return word.slice(from, to);
}
