(function () {
  'use strict';
  document.documentElement.classList.add('has-js');

  document.querySelectorAll('.command').forEach(function (box) {
    var button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.setAttribute('aria-live', 'polite');
    button.addEventListener('click', function () {
      var text = box.querySelector('code').textContent;
      var done = function (ok) {
        button.textContent = ok ? 'Copied' : 'Select it';
        setTimeout(function () { button.textContent = 'Copy'; }, 1600);
      };
      var byHand = function () {
        var range = document.createRange();
        range.selectNodeContents(box.querySelector('code'));
        var sel = getSelection();
        sel.removeAllRanges();
        sel.addRange(range);
        var ok = false;
        try { ok = document.execCommand('copy'); } catch (e) { ok = false; }
        done(ok);
      };
      if (navigator.clipboard) { navigator.clipboard.writeText(text).then(function () { done(true); }, byHand); } else { byHand(); }
    });
    box.appendChild(button);
  });
})();
