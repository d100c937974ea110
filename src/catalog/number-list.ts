import { catalogError } from '../errors/catalog.ts';

/**
 * Returns the numbers of a column that holds a list of them as JSON, such as `[1,3]`.
 *
 * @param file of the catalog
 * @throws catalog-damaged where it holds anything else
 */
export function numberList(text: string, file: string): number[] {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw catalogError('catalog-damaged', { file, reason: NOT_A_LIST }, error);
  }
  if (Array.isArray(parsed) && parsed.every((one) => typeof one === 'number')) return parsed;
  throw catalogError('catalog-damaged', { file, reason: NOT_A_LIST });
}

const NOT_A_LIST = 'a list of numbers that is none';
