/** Letters whose headers, parts and attachments are of every kind that readers show. */
export const LETTERS: Readonly<Record<string, string>> = {
  plain: `Message-ID: <plain@example.org>
Date: Tue, 03 Feb 2026 10:00:00 +0000
From: Anna Berg <anna@example.org>
Sender: Office <office@example.org>
Reply-To: Anna <reply@example.org>
To: ada@example.org, Bea <bea@example.org>
Cc: cleo@example.org
Bcc: dora@example.org
Subject: The blue lighthouse

We saw the lighthouse from the ferry.
`,
  answer: `Message-ID: <answer@example.org>
In-Reply-To: <plain@example.org>
References: <plain@example.org>
Date: Wed, 04 Feb 2026 10:00:00 +0000
From: ada@example.org
To: anna@example.org
Subject: Re: The blue lighthouse
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=outer

--outer
Content-Type: multipart/related; boundary=inner

--inner
Content-Type: text/html; charset=utf-8

<p>See <a href="https://example.org/">the lighthouse</a> <img src="cid:one"></p>
--inner
Content-Type: image/png
Content-ID: <one>
Content-Disposition: inline; filename=one.png
Content-Transfer-Encoding: base64

iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==
--inner--
--outer
Content-Type: text/csv; name=table.csv
Content-Disposition: attachment; filename=table.csv

lighthouse,height
--outer
Content-Type: message/rfc822
Content-Disposition: attachment

From: eve@example.org
Subject: within
Date: Wed, 04 Feb 2026 09:00:00 +0000

A letter within a letter.
--outer
Content-Type: application/pdf
Content-Disposition: attachment; filename=broken.pdf

this is no PDF
--outer--
`,
  bare: `Subject:

nothing but this
`,
};
