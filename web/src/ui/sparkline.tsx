interface SparklineProps {
  values: readonly (number | null)[];
  /** How many values the whole width stands for. Fewer are at its right end, so that all rows share one time axis. */
  of: number;
  label: string;
}

/** A line without axes, for table rows. Null is a gap. */
export function Sparkline({ values, of, label }: SparklineProps) {
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const step = 100 / (of - 1);
  const first = of - values.length;
  let path = "";
  let pen = "M";
  values.forEach((value, at) => {
    if (value === null) {
      pen = "M";
      return;
    }
    path += `${pen}${((first + at) * step).toFixed(1)} ${(18 - (16 * value) / most).toFixed(1)}`;
    pen = "L";
  });
  return (
    <svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label={label}>
      <path
        d={path}
        fill="none"
        stroke={values.some(Boolean) ? "var(--accent)" : "var(--line-strong)"}
        stroke-width="1.5"
        vector-effect="non-scaling-stroke"
      />
    </svg>
  );
}
