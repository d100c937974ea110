/**
 * Returns whether two addresses of deliveries are the same as URLs: the case of the host, a default port and the slash
 * of an empty path make no difference. What is no URL is compared letter by letter.
 */
export function isSameAddress(one: string, other: string): boolean {
  return one === other || normal(one) === normal(other);
}

function normal(url: string): string {
  return URL.canParse(url) ? new URL(url).href : url;
}
