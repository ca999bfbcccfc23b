/* theme.js - light or dark, before the first pixel: loaded ahead of everything, so that a page that
 * is to be dark never flashes. The choice is no secret and is remembered; without one, the system's
 * holds. */
'use strict';
(function () {
    let chosen = null;
    try {
        chosen = localStorage.getItem('tollgate-theme');
    } catch {
        /* A browser that keeps nothing has the system's. */
    }
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
})();
