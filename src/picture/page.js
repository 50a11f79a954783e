(function () {
  'use strict';
  var all = Array.from(document.querySelectorAll('[data-is]'));
  var shown = null;

  function tied(node) {
    return node instanceof Element ? node.closest('[data-is]') : null;
  }

  // The names of what is lit with an element: a computed operation brings all that is one kernel with it.
  function names(element) {
    var near = (element.dataset.with || '').split(' ');
    var more = element.classList.contains('computed') ? near : [];
    return more.reduce(function (all, id) {
      return all.concat(document.getElementById(id).dataset.with.split(' '));
    }, [element.dataset.is].concat(near));
  }

  // Scrolls the other pane to the first element that belongs to this one.
  function reveal(element) {
    document.querySelectorAll('.pane').forEach(function (pane) {
      var first = pane.querySelector('.lit');
      if (first === null || pane.contains(element)) { return; }
      var inner = first.getBoundingClientRect();
      var outer = pane.getBoundingClientRect();
      if (outer.top > inner.top || inner.bottom > outer.bottom) {
        pane.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
      }
      if (outer.left > inner.left || inner.right > outer.right) {
        pane.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
      }
    });
  }

  function show(element) {
    if (element === shown) { return; }
    shown = element;
    var lit = element === null ? [] : names(element);
    document.body.classList.toggle('linking', element !== null);
    all.forEach(function (other) {
      other.classList.toggle('lit', lit.includes(other.dataset.is));
    });
    if (element !== null) { reveal(element); }
  }

  document.addEventListener('mouseover', function (event) {
    show(tied(event.target) || tied(document.activeElement));
  });
  document.addEventListener('mouseleave', function () { show(tied(document.activeElement)); });
  document.addEventListener('focusin', function (event) { show(tied(event.target)); });
  document.addEventListener('focusout', function () { show(null); });
  document.addEventListener('keydown', function (event) {
    if (event.key === 'Escape') { show(null); }
  });
})();
