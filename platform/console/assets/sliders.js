// Moves a number with its slider and a slider with its number; the form sends both, and works without this script.
"use strict";

function numberAt(slider) {
  const low = Number(slider.dataset.low);
  const high = Number(slider.dataset.high);
  const part = Number(slider.value) / Number(slider.max);
  const value = "logarithmic" in slider.dataset ? low * (high / low) ** part : low + (high - low) * part;
  return Math.min(Math.max(Number(value.toPrecision(2)), low), high);
}

function placeOf(slider, text) {
  const low = Number(slider.dataset.low);
  const high = Number(slider.dataset.high);
  const value = Math.min(Math.max(Number(text.replace(",", ".")), low), high);
  const part = "logarithmic" in slider.dataset ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.round(part * Number(slider.max));
}

for (const slider of document.querySelectorAll("input[type=range][data-number]")) {
  const number = document.getElementById(slider.dataset.number);
  const say = () => slider.setAttribute("aria-valuetext", `${number.value} ${slider.dataset.unit}`);
  slider.addEventListener("input", () => { number.value = String(numberAt(slider)); say(); });
  number.addEventListener("input", () => {
    const place = placeOf(slider, number.value);
    if (number.value.trim() && Number.isFinite(place)) {
      slider.value = String(place);
      say();
    }
  });
}
