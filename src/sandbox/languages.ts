type Words = readonly [string, ...string[]];

export interface Language {
  readonly charsets: Words;
  readonly subjects: Words;
  readonly greetings: Words;
  /** Can contain the slots `{thing}`, `{day}`, `{place}` and `{number}`. */
  readonly sentences: Words;
  readonly closings: Words;
  readonly things: Words;
  readonly days: Words;
  readonly places: Words;
  readonly first: Words;
  readonly last: Words;
  readonly wrote: string;
}

function list(text: string): Words {
  const [first = '', ...rest] = text
    .trim()
    .split(/[|\n]/)
    .map((word) => word.trim());
  return [first, ...rest];
}

const english: Language = {
  charsets: ['us-ascii', 'utf-8', 'utf-8', 'iso-8859-1', 'windows-1252'],
  subjects: [
    'Agenda for {day}',
    'Invoice {number}',
    'Notes on the {thing}',
    'Question about the {thing}',
    'The {thing} is ready',
    'Travel to {place}',
    'Minutes of the meeting in {place}',
    'Draft of the {thing}, please review',
    'Order {number} has shipped',
    'Reminder: {thing} due on {day}',
  ],
  greetings: ['Hello,', 'Hi all,', 'Good morning,', 'Dear colleagues,', 'Hi there,'],
  sentences: [
    'The {thing} is attached; please read it before {day}.',
    'We met in {place} and agreed to move the {thing} to {day}.',
    'I counted {number} entries and two of them look wrong.',
    'Could you check whether the {thing} still holds?',
    'The supplier in {place} asks for {number} more boxes.',
    'Nobody has answered since {day}, so I will call them.',
    'Thank you for the {thing}, it was very helpful.',
    'The train leaves {place} at noon, and the meeting starts an hour later.',
    'Please send the signed {thing} back by {day} at the latest.',
    'Our budget for the {thing} is {number} euros, not a cent more.',
    'I would rather wait for the {thing} than decide without it.',
    'The second part of the {thing} repeats what we said in {place}.',
    'If {day} does not suit you, propose another date.',
    'The server was down for {number} minutes last night.',
  ],
  closings: ['Best regards', 'Kind regards', 'Thanks', 'Cheers', 'See you soon'],
  things: list(`
    contract | report | budget | schedule | proposal | presentation | invoice | catalogue | survey
    drawing | manual | shipment | prototype | lease | backup | migration | recipe | photograph
    timetable | warranty | newsletter | inventory | garden plan`),
  days: ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'the weekend', 'tomorrow'],
  places: ['London', 'Dublin', 'Oslo', 'Toronto', 'Bristol', 'Leeds', 'Boston', 'Wellington'],
  first: list(`
    Ada | Grace | Oliver | Emily | Henry | Charlotte | Samuel | Alice | Peter | Ruth`),
  last: ['Carter', 'Hughes', 'Bennett', 'Marsh', 'Fletcher', 'Holloway', 'Quinn', 'Barlow', 'Reed'],
  wrote: 'wrote',
};

const german: Language = {
  charsets: ['utf-8', 'iso-8859-1', 'windows-1252', 'iso-8859-15'],
  subjects: [
    'Rückfrage zum Thema {thing}',
    'Rechnung Nr. {number}',
    'Grüße aus {place}',
    'Terminänderung: {day}',
    'Entwurf für {thing}',
    'Übersicht der Außenstände',
  ],
  greetings: ['Guten Tag,', 'Hallo zusammen,', 'Sehr geehrte Damen und Herren,', 'Liebe Kollegen,'],
  sentences: [
    'anbei finden Sie die Unterlagen ({thing}) für {day}.',
    'Wir haben in {place} über das Thema {thing} gesprochen und müssen es prüfen.',
    'Bitte überweisen Sie {number} € bis {day}.',
    'Können wir den Termin auf {day} verschieben?',
    'Die Größe der Lieferung beträgt {number} Stück.',
    'Für Rückfragen stehe ich Ihnen gern zur Verfügung.',
    'Der Zug nach {place} fällt leider aus.',
    'Ich füge die geänderte Fassung bei; bitte schließen Sie sie ab.',
    'Schöne Grüße von der Straße zwischen {place} und zu Hause.',
  ],
  closings: ['Mit freundlichen Grüßen', 'Viele Grüße', 'Herzliche Grüße', 'Bis bald'],
  things: list(`
    Vertrag | Angebot | Prüfbericht | Mietvertrag | Kostenübersicht | Präsentation | Lieferschein`),
  days: ['Montag', 'Dienstag', 'Mittwoch', 'Donnerstag', 'Freitag', 'übermorgen'],
  places: ['Köln', 'München', 'Zürich', 'Lübeck', 'Wien', 'Görlitz', 'Düsseldorf'],
  first: ['Jürgen', 'Käthe', 'Björn', 'Anna', 'Lukas', 'Ursula', 'Matthias', 'Sören'],
  last: ['Müller', 'Schäfer', 'Weiß', 'Krüger', 'Böhm', 'Lehmann', 'Vogel'],
  wrote: 'schrieb',
};

const french: Language = {
  charsets: ['utf-8', 'iso-8859-1', 'windows-1252'],
  subjects: [
    'Réunion à {place}',
    'Facture n° {number}',
    'Votre demande : {thing}',
    'Projet été à {place}',
    'À relire avant {day}',
  ],
  greetings: ['Bonjour,', 'Chère équipe,', 'Bonsoir à tous,', 'Madame, Monsieur,'],
  sentences: [
    'vous trouverez ci-joint le document « {thing} » à relire avant {day}.',
    'La réunion prévue à {place} est reportée à {day}.',
    'Nous avons reçu {number} réponses, c’est déjà très bien.',
    'Pourriez-vous vérifier où en est le dossier « {thing} » ?',
    'Le coût s’élève à {number} euros, taxes comprises.',
    'J’espère que le séjour à {place} s’est bien passé.',
    'Merci de me le renvoyer signé dès que possible.',
  ],
  closings: ['Cordialement', 'Bien à vous', 'À bientôt', 'Meilleures salutations'],
  things: ['devis', 'contrat', 'synthèse', 'présentation', 'relevé', 'brochure', 'procès-verbal'],
  days: ['lundi', 'mardi', 'mercredi', 'jeudi', 'vendredi'],
  places: ['Orléans', 'Genève', 'Nîmes', 'Besançon', 'Montréal', 'Liège'],
  first: ['Hélène', 'François', 'Zoé', 'Benoît', 'Chloé', 'Gérard'],
  last: ['Lefèvre', 'Dubois', 'Garçon', 'Moreau', 'Béranger', 'Noël'],
  wrote: 'a écrit',
};

const spanish: Language = {
  charsets: ['utf-8', 'iso-8859-1'],
  subjects: [
    'Reunión en {place}',
    'Factura {number}',
    'Año nuevo, {thing} nuevo',
    '¿Qué tal el {day}?',
  ],
  greetings: ['Hola:', 'Buenos días:', 'Estimados compañeros:'],
  sentences: [
    'te envío el documento ({thing}) para revisarlo el {day}.',
    'La reunión de {place} será mañana por la mañana.',
    'Faltan {number} piezas; ¿podrías llamar al almacén?',
    'El niño cumple años el {day} y lo celebramos en {place}.',
    'Según el último informe, todo va según lo previsto.',
  ],
  closings: ['Un saludo', 'Muchas gracias', 'Un abrazo'],
  things: ['presupuesto', 'contrato', 'informe', 'diseño', 'pedido'],
  days: ['lunes', 'martes', 'miércoles', 'jueves', 'viernes'],
  places: ['Málaga', 'Bogotá', 'Córdoba', 'A Coruña', 'Cádiz'],
  first: ['Íñigo', 'Sofía', 'Andrés', 'Begoña', 'José'],
  last: ['Núñez', 'García', 'Ibáñez', 'Peña', 'López'],
  wrote: 'escribió',
};

const russian: Language = {
  charsets: ['koi8-r', 'utf-8', 'windows-1251'],
  subjects: ['Договор и {thing}', 'Счёт № {number}', 'Встреча: {place}', 'Вопрос по теме: {thing}'],
  greetings: ['Здравствуйте,', 'Добрый день,', 'Привет,'],
  sentences: [
    'во вложении {thing}, прошу посмотреть до конца недели.',
    'Встреча переносится: {place}, {day}.',
    'Мы получили {number} писем и ответили на все.',
    'Пожалуйста, проверьте документ ещё раз.',
    'Поезд опаздывает, буду через час.',
  ],
  closings: ['С уважением', 'Спасибо', 'До встречи'],
  things: ['отчёт', 'план', 'чертёж', 'список', 'каталог'],
  days: ['понедельник', 'вторник', 'среда', 'четверг', 'пятница'],
  places: ['Казань', 'Рига', 'Тбилиси', 'Алматы', 'Псков'],
  first: ['Анна', 'Пётр', 'Ольга', 'Фёдор'],
  last: ['Соловьёва', 'Кузнецов', 'Морозова', 'Зайцев'],
  wrote: 'пишет',
};

const japanese: Language = {
  charsets: ['iso-2022-jp', 'utf-8'],
  subjects: ['{place}での会議について', '請求書 {number}', '{thing}の件', '来週の予定'],
  greetings: ['お世話になっております。', 'おはようございます。', '皆様'],
  sentences: [
    '{thing}を添付いたしますので、ご確認ください。',
    '会議は{day}に{place}で行います。',
    '合計は{number}円です。',
    'ご返信をお待ちしております。',
    '詳しいことは明日お電話いたします。',
  ],
  closings: ['よろしくお願いいたします。', 'ありがとうございます。'],
  things: ['契約書', '報告書', '見積書', '写真', '資料'],
  days: ['月曜日', '火曜日', '水曜日', '木曜日', '金曜日'],
  places: ['東京', '京都', '札幌', '横浜', '福岡'],
  first: ['花子', '太郎', '美咲', '健一'],
  last: ['山田', '佐藤', '鈴木', '田中'],
  wrote: 'さんの書き込み',
};

const chinese: Language = {
  charsets: ['gb18030', 'utf-8'],
  subjects: ['关于{thing}的问题', '发票 {number}', '{place}会议通知', '请查收{thing}'],
  greetings: ['您好，', '各位同事：', '大家好，'],
  sentences: [
    '附件是{thing}，请在{day}之前回复。',
    '会议改到{day}，地点在{place}。',
    '一共有{number}份文件需要签字。',
    '如有问题，请随时与我联系。',
    '谢谢您上次的帮助。',
  ],
  closings: ['此致敬礼', '谢谢', '祝好'],
  things: ['合同', '报告', '计划', '照片', '清单'],
  days: ['星期一', '星期二', '星期三', '星期四', '星期五'],
  places: ['北京', '上海', '广州', '成都', '杭州'],
  first: ['伟', '芳', '娜', '敏'],
  last: ['王', '李', '张', '刘'],
  wrote: '写道',
};

export const LANGUAGES: readonly [Language, ...Language[]] = [
  english,
  english,
  english,
  english,
  english,
  german,
  german,
  french,
  french,
  spanish,
  russian,
  japanese,
  chinese,
];
