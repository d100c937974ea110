/** A folder of messages that stay, whose flags the writers change. */
export const STOCK_FOLDER = 'INBOX.Stock';
export const STOCK_MESSAGES = 64;
