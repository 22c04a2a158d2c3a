/** In the demo: a slider for the producers' rate, and buttons for more or fewer workers. They change real processes. */

import { useEffect, useRef, useState } from "preact/hooks";
import { call } from "../../api/call.ts";
import type { Demo, DemoChange } from "../../api/contract.ts";
import { me } from "../../api/live.ts";
import { countOf, showRate } from "../../format/number.ts";
import { Button } from "../../ui/button.tsx";
import { sayError } from "../../ui/toast.tsx";

export function DemoControls({ queue }: { queue: string }) {
  const [demo, setDemo] = useState<Demo | null>(null);
  const sending = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const isDemo = me.value?.demo ?? false;
  useEffect(() => {
    if (isDemo) call<Demo>("v1/demo").then(setDemo, () => {});
  }, [isDemo]);
  if (!demo?.running || demo.queue !== queue) return null;

  function change(wanted: DemoChange, wait = 0) {
    setDemo({ ...demo!, ...wanted });
    clearTimeout(sending.current);
    sending.current = setTimeout(() => {
      call<Demo>("v1/demo", { body: wanted }).then(setDemo, sayError);
    }, wait);
  }
  const { rate, workers, limits } = demo;
  return (
    <div class="demo-controls">
      <label>
        <span class="quiet">Producers</span>
        <input
          type="range"
          {...logarithmic(limits.rate, rate)}
          step={0.01}
          aria-valuetext={`${showRate(rate)} tasks per second`}
          onInput={(event) =>
            change({ rate: fromSlider(limits.rate, event.currentTarget.valueAsNumber) }, 150)
          }
        />
        <b>{showRate(rate)} /s</b>
      </label>
      <div class="row">
        <span class="quiet">Workers</span>
        <Button
          small
          label="One worker less"
          disabled={workers <= limits.workers.min}
          onClick={() => change({ workers: workers - 1 })}
        >
          −
        </Button>
        <b>{countOf(workers, "worker")}</b>
        <Button
          small
          label="One worker more"
          disabled={workers >= limits.workers.max}
          onClick={() => change({ workers: workers + 1 })}
        >
          +
        </Button>
      </div>
    </div>
  );
}

/** From one task to thousands per second: equal steps of the slider are equal factors. */
function logarithmic({ min, max }: Demo["limits"]["rate"], rate: number) {
  return { min: Math.log10(Math.max(1, min)), max: Math.log10(max), value: Math.log10(Math.max(1, rate)) };
}

function fromSlider({ min, max }: Demo["limits"]["rate"], value: number): number {
  const rate = 10 ** value;
  return Math.min(max, Math.max(min, rate < 20 ? Math.round(rate) : Number(rate.toPrecision(2))));
}
