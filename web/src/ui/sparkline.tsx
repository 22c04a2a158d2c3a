/** A line without axes, for table rows. Null is a gap. */
export function Sparkline({ values, label }: { values: readonly (number | null)[]; label: string }) {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const step = values.length > 1 ? 100 / (values.length - 1) : 0;
  let path = "";
  let pen = "M";
  values.forEach((value, at) => {
    if (value === null) {
      pen = "M";
      return;
    }
    path += `${pen}${(at * step).toFixed(1)} ${(18 - (16 * value) / most).toFixed(1)}`;
    pen = "L";
  });
  return (
    <svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label={label}>
      <path
        d={path}
        fill="none"
        stroke="var(--accent)"
        stroke-width="1.5"
        vector-effect="non-scaling-stroke"
      />
    </svg>
  );
}
