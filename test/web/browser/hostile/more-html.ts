/** More HTML of hostile mails. Placeholders are those of html.ts. */

/** Every attribute that runs a script when something happens, of all elements or of some. */
export const HANDLERS: readonly string[] = (
  'abort activate afterprint animationcancel animationend animationiteration animationstart auxclick beforecopy ' +
  'beforecut beforeinput beforematch beforepaste beforeprint beforetoggle beforeunload beforexrselect begin blur bounce ' +
  'cancel canplay canplaythrough change click close command contentvisibilityautostatechange contextlost contextmenu ' +
  'contextrestored copy cuechange cut dblclick drag dragend dragenter dragexit dragleave dragover dragstart drop ' +
  'durationchange emptied end ended error finish focus focusin focusout formdata fullscreenchange gotpointercapture ' +
  'hashchange input invalid keydown keypress keyup languagechange load loadeddata loadedmetadata loadstart ' +
  'lostpointercapture message mousedown mouseenter mouseleave mousemove mouseout mouseover mouseup mousewheel ' +
  'offline online pagehide pagereveal pageshow pageswap paste pause play playing pointercancel pointerdown ' +
  'pointerenter pointermove pointerout pointerover pointerrawupdate pointerup popstate progress propertychange ratechange ' +
  'readystatechange rejectionhandled repeat reset resize scroll scrollend scrollsnapchange search securitypolicyviolation ' +
  'seeked seeking select selectionchange selectstart show slotchange stalled start storage submit suspend timeupdate ' +
  'toggle touchcancel touchend touchmove touchstart transitioncancel transitionend transitionrun transitionstart ' +
  'unhandledrejection unload volumechange waiting webkitanimationend webkittransitionend wheel zoom'
).split(' ');

export const MORE_HTML: readonly string[] = [
  // Attributes that load, each on the element that knows it and on one that does not.
  '<img src="{url}" srcset="{url}/a 1w" sizes="auto" loading="eager" fetchpriority="high">',
  '<img imagesrcset="{url}" imagesizes="9px" attributionsrc="{url}">',
  '<img src="//127.0.0.1/{url}"><img src="\\\\trap.example\\x"><img src="/you">',
  '<img src="&#104;ttp://trap.example/x"><img src="ht&Tab;tp://trap.example/x">',
  '<img src="\u0000{url}"><img src="{url}\u0000.png"><img src=" \r\n{url}">',
  '<img src="data:image/png;base64,AAAA,{url}"><img src="data:image/png,<svg onload={js}>">',
  '<img src="data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDQyMTcwMDApIi8+">',
  '<img src="DATA:text/html,<script>{js}</script>"><img src="data:,x" onerror="{js}">',
  '<img src="cid:nobody" onerror="{js}"><img src="cid:../../you" alt="{js}">',
  '<img src="blob:{url}"><img src="filesystem:{url}"><img src="file:///etc/hostname">',
  '<img src="javascript:{js}"><img src="vbscript:{js}"><img src="feed:{url}">',
  '<img name=onerror src=x id=ran><img alt="\'`&quot; onerror={js}" src=x>',
  '<div background="{url}" src="{url}" poster="{url}" data="{url}" srcset="{url}">x</div>',
  '<p cite="{url}" longdesc="{url}" profile="{url}" usemap="{url}" itemid="{url}">x</p>',
  '<q cite="javascript:{js}">x</q><ins cite="{url}">x</ins><del cite="{url}">x</del>',
  '<td background="javascript:{js}">x</td><th background="{url}">x</th><tr background="{url}"></tr>',
  '<table style="background:url({url})" background="javascript:{js}"><tbody><tr><td>x</td></tr></tbody></table>',
  '<font face="x;background:url({url})" color="expression({js})" size="&quot;{js}">x</font>',
  '<p align="&quot;onclick={js}" width="url({url})" bgcolor="url({url})" dir="{js}">x</p>',
  '<p class="keys" id="root" name="page">x</p><p id="query">x</p><p id="results">x</p>',
  '<a name="query" id="page" href="#{js}">x</a><a id="location" href="{url}">x</a>',
  '<a href="https://trap.example\u3002example.org/\u202emoc">x</a><a href="http://аpple.example/">x</a>',
  '<a href="https:trap.example">x</a><a href="http:\\\\trap.example">x</a><a href="https:///trap.example">x</a>',
  '<a href="mailto:a@example.org?subject=<script>{js}</script>&attach=/etc/passwd">x</a>',
  '<a href="tel:*21*+1&quot;onclick={js}">x</a><a href="sms:1?body={url}">x</a><a href="data:,{js}">x</a>',
  '<a href="/away?to=javascript:{js}">x</a><a href="/away?to=//trap.example">x</a><a href="/sign-out">x</a>',
  '<a href="/api/export?q=*" download="a.html">x</a><a href="/m/0000/html" target="_self">x</a>',
  '<a href="\u0001\u0002javascript:{js}">x</a><a href="javascript\u0000:{js}">x</a><a href="\ufeffjavascript:{js}">x</a>',
  '<a href="javascript:/*--></title></style></textarea></script><svg onload={js}>*/{js}">x</a>',
  '<a href="jAvAsCrIpT&#x3a;{js}" target="_blank" rel="opener">x</a><a href="javascript://%0a{js}">x</a>',
  '<area href="javascript:{js}" shape=rect coords="0,0,99,99"><area href="{url}" ping="{url}">',
  '<div style="background:url({url})" style="x" onclick={js} onclick="x">x</div>',
  '<div is="x-ran" slot="{js}" part="x" exportparts="x" nonce="x" itemprop="{url}">x</div>',
  '<div popover="manual" popovertarget="p" commandfor="p" command="show-modal" ontoggle={js}>x</div>',
  '<div inert hidden="until-found" onbeforematch={js} contenteditable="plaintext-only" onbeforeinput={js}>x</div>',
  '<slot name=x onslotchange={js}>x</slot><output onformdata={js}>x</output><meter onclick={js}>x</meter>',
  '<geolocation onlocation={js}></geolocation><permission type="camera" onpromptaction={js}></permission>',
  '<model src="{url}"></model><webview src="{url}"></webview><controlledframe src="{url}"></controlledframe>',
  '<v:image xmlns:v="urn:schemas-microsoft-com:vml" src="{url}" onclick={js}></v:image><o:p onclick={js}>x</o:p>',
  '<xml id=i src="{url}"></xml><span datasrc="#i" datafld="c" dataformatas="html">x</span>',
  '<x-ran onclick={js}><x-ran.b onload={js}></x-ran.b></x-ran><a:b onload={js} href="{url}">x</a:b>',
  '<ruby><rt onclick={js}><rp background="{url}">x</rp></rt></ruby><wbr onclick={js}><hr onclick={js}>',
  '<dl onclick={js}><dt style="background:url({url})">x</dt><dd onfocus={js} tabindex=0>x</dd></dl>',
  '<img src=x onerror\u000b={js}><img src=x \u00ado\u00adnerror={js}><img src=x onerror\u0000={js}>',
  '<img src=x oneonerrorrror={js}><img src=x ononerror={js}><imgimg src=x onerror={js}>',
  '<<img src=x onerror={js}>><img src=x onerror={js} <p>x</p>',
];
