/* table.js - tables whose rows stay the same elements while their values change, so that the focus
 * and a selection outlive a second.
 *
 * Everything is put in as text: names may be anything that a client sent.
 */

/* Sets what has changed, and leaves the rest alone. */
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

export function make(name, { className, text, ...more } = {}) {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return Object.assign(element, more);
}

/* A cell is a text, or {text, className, parts}: parts are elements that stand there instead; they
 * are made once for a row and then given to `update`. */
function fillCell(td, cell, label) {
    const {
        text = '',
        className = '',
        part,
        update,
    } = typeof cell === 'object' ? cell : { text: cell };
    td.dataset.label = label.text;
    const classes = `${label.className} ${className} ${part || text !== '' ? '' : 'empty'}`
        .replace(/\s+/g, ' ')
        .trim();
    if (td.className !== classes) td.className = classes;
    if (part) {
        if (td.part !== part.kind) {
            td.replaceChildren(...part());
            td.part = part.kind;
        }
        update?.(td);
    } else {
        td.part = undefined;
        setText(td, text);
    }
}

/* A part is a function that makes elements, named so that it is made once. */
export function part(kind, elements) {
    return Object.assign(elements, { kind });
}

/* Fills a table's body: one row for each item, known again by keyOf(item); cellsOf(item) has its
 * cells, in the order of the table's head. */
export function fillTable(table, items, keyOf, cellsOf, rowClass = () => '') {
    const body = table.tBodies[0];
    const labels = [...table.tHead.rows[0].cells].map((th) => ({
        text: th.textContent,
        className: th.className,
    }));
    const known = (table.rowsByKey ??= new Map());
    const left = new Set(known.keys());
    items.forEach((item, i) => {
        const key = keyOf(item);
        let row = known.get(key);
        if (!row) known.set(key, (row = make('tr')));
        left.delete(key);
        row.item = item;
        if (row.className !== rowClass(item)) row.className = rowClass(item);
        cellsOf(item).forEach((cell, k) => {
            const td = row.cells[k] ?? row.appendChild(make('td'));
            fillCell(td, cell, labels[k]);
        });
        if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] ?? null);
    });
    for (const key of left) {
        known.get(key).remove();
        known.delete(key);
    }
    table.hidden = items.length === 0 && table.nextElementSibling?.matches('.none');
    if (table.nextElementSibling?.matches('.none'))
        table.nextElementSibling.hidden = items.length > 0;
}
