// What depends on a language or a time zone. The engine has no data of either, and its own methods pass over what they are told.
// Here they do what is right without data, and say of everything else that it is not there. Evaluated when first used.
export default (function () {
  const WAYS_OUT =
    'write the format in the handler, from getUTCHours() and the like or a table of names, or run it in Node by a handler.json of the kind `process`';

  function refuse(what) {
    throw new RangeError(`${what} is not in this engine, which has no data of languages and time zones: ${WAYS_OUT}`);
  }

  const Intl = new Proxy(Object.freeze({}), {
    get: (target, name) => (typeof name === 'symbol' ? target[name] : refuse(`Intl.${name}`)),
  });

  // The one language that is meant.
  function languageOf(method, locales, known) {
    const [locale] = Array.isArray(locales) ? locales : [locales];
    if (locale === undefined || known.includes(String(locale))) return;
    refuse(`${method} for ${JSON.stringify(String(locale).slice(0, 40))}`);
  }

  function optionsOf(method, options, known) {
    if (options === undefined || options === null) return {};
    for (const [name, value] of Object.entries(options)) {
      const values = known[name];
      if (value === undefined || (typeof values === 'function' ? values(value) : values?.includes(value))) continue;
      refuse(`${method} with ${name}: ${JSON.stringify(String(value).slice(0, 40))}`);
    }
    return options;
  }

  const two = (number) => String(number).padStart(2, '0');

  // As in American English, the language of every engine without data.
  function date(method, value, locales, options) {
    languageOf(method, locales, ['en', 'en-US']);
    const { timeZone } = optionsOf(method, options, { timeZone: ['UTC', 'Etc/UTC', 'GMT'] });
    if (Number.isNaN(value.getTime())) return 'Invalid Date';
    const of = (name) => value[`get${timeZone === undefined ? '' : 'UTC'}${name}`]();
    const day = `${of('Month') + 1}/${of('Date')}/${of('FullYear')}`;
    const hour = of('Hours');
    const time = `${hour % 12 || 12}:${two(of('Minutes'))}:${two(of('Seconds'))} ${hour < 12 ? 'AM' : 'PM'}`;
    if (method === 'toLocaleDateString') return day;
    return method === 'toLocaleTimeString' ? time : `${day}, ${time}`;
  }

  const ENGLISH = ['en', 'en-US', 'en-GB', 'en-CA', 'en-AU', 'en-NZ', 'en-IE'];
  const isDigits = (value) => Number.isInteger(value) && value >= 0 && value <= 100;

  function grouped(digits, isGrouped) {
    return isGrouped ? digits.replace(/\B(?=(\d{3})+$)/g, ',') : digits;
  }

  // The digits before and behind the point, of a number whose point moves to the right, rounded as they are written.
  function rounded(size, shift, most) {
    const [mantissa, exponent] = size.toExponential().split('e');
    let digits = mantissa.replace('.', '');
    let point = size === 0 ? 1 : Number(exponent) + 1 + shift;
    if (point <= 0) {
      digits = '0'.repeat(1 - point) + digits;
      point = 1;
    }
    digits = digits.padEnd(point, '0');
    const end = point + most;
    if (digits.length > end) {
      const isUp = digits[end] >= '5';
      digits = digits.slice(0, end);
      if (isUp) digits = String(BigInt(digits) + 1n).padStart(end, '0');
      if (digits.length > end) point += 1;
    }
    return [digits.slice(0, point), digits.slice(point)];
  }

  function number(method, value, locales, options) {
    languageOf(method, locales, ENGLISH);
    const { style, useGrouping = true, minimumFractionDigits, maximumFractionDigits } = optionsOf(method, options, {
      style: ['decimal', 'percent'],
      useGrouping: [true, false],
      minimumFractionDigits: isDigits,
      maximumFractionDigits: isDigits,
    });
    if (typeof value === 'bigint' && style === undefined && minimumFractionDigits === undefined) {
      return `${value < 0n ? '-' : ''}${grouped(String(value < 0n ? -value : value), useGrouping)}`;
    }
    if (typeof value === 'bigint' && BigInt(Number(value)) !== value) {
      refuse(`${method} of so large a BigInt with ${style === undefined ? 'minimumFractionDigits' : `style: ${JSON.stringify(style)}`}`);
    }
    const percent = style === 'percent';
    const usual = percent ? 0 : 3;
    const least = minimumFractionDigits ?? 0;
    const most = maximumFractionDigits ?? Math.max(usual, least);
    if (least > most) throw new RangeError('minimumFractionDigits is more than maximumFractionDigits');
    const given = Number(value);
    if (Number.isNaN(given)) return 'NaN';
    const sign = given < 0 || Object.is(given, -0) ? '-' : '';
    const end = percent ? '%' : '';
    const size = Math.abs(given);
    if (size === Infinity) return `${sign}∞${end}`;
    const [whole, fraction] = rounded(size, percent ? 2 : 0, most);
    let kept = fraction.padEnd(least, '0');
    while (kept.length > least && kept.endsWith('0')) kept = kept.slice(0, -1);
    return `${sign}${grouped(whole, useGrouping)}${kept === '' ? '' : `.${kept}`}${end}`;
  }

  // Languages whose order is that of all.
  const COMPARED = [...ENGLISH, 'de', 'de-DE', 'de-AT', 'de-CH', 'fr', 'fr-FR', 'it', 'it-IT', 'nl', 'nl-NL', 'pt', 'pt-BR', 'pt-PT'];
  const base = (text) => text.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase().replaceAll('ß', 'ss').replaceAll('_', '!');
  const order = (left, right) => (left < right ? -1 : left > right ? 1 : 0);

  function inNumbers(left, right) {
    const parts = (text) => text.match(/\d+|\D+/g) ?? [];
    const [lefts, rights] = [parts(left), parts(right)];
    for (let at = 0; at < Math.min(lefts.length, rights.length); at++) {
      const areNumbers = /^\d/.test(lefts[at]) && /^\d/.test(rights[at]);
      const found = areNumbers ? order(BigInt(lefts[at]), BigInt(rights[at])) : order(lefts[at], rights[at]);
      if (found !== 0) return found;
    }
    return order(lefts.length, rights.length);
  }

  function compare(method, value, that, locales, options) {
    languageOf(method, locales, COMPARED);
    const { numeric, sensitivity = 'variant' } = optionsOf(method, options, {
      numeric: [true, false],
      sensitivity: ['base', 'accent', 'case', 'variant'],
      usage: ['sort', 'search'],
    });
    const [left, right] = [String(value), String(that)];
    const letters = (numeric ? inNumbers : order)(base(left), base(right));
    if (letters !== 0 || sensitivity === 'base') return letters;
    const accents = (text) => text.normalize('NFD').toLowerCase();
    const accent = sensitivity === 'case' ? 0 : order(accents(left), accents(right));
    if (accent !== 0 || sensitivity === 'accent') return accent;
    // Small letters come first.
    const cases = (text) => [...text.normalize('NFC')].map((letter) => (letter === letter.toLowerCase() ? '0' : '1')).join('');
    return order(cases(left), cases(right));
  }

  // Languages with a letter whose other case is another one than everywhere else.
  function caseOf(method, value, locales) {
    const [locale] = Array.isArray(locales) ? locales : [locales];
    if (locale !== undefined && /^(tr|az|lt)\b/i.test(String(locale))) refuse(`${method} for ${JSON.stringify(String(locale).slice(0, 40))}`);
    return method === 'toLocaleUpperCase' ? value.toUpperCase() : value.toLowerCase();
  }

  return { Intl, date, number, compare, caseOf };
});
