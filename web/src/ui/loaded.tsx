import type { ComponentChildren } from "preact";
import type { Resource } from "../store/resource.ts";
import { Failure } from "./dialog.tsx";

/** Shows a resource once it is there, and in words why it is not. */
export function Loaded<T>({
  from,
  children,
}: {
  from: Resource<T>;
  children: (value: T) => ComponentChildren;
}) {
  return (
    <>
      <Failure text={from.failure} />
      {from.value !== undefined && children(from.value)}
    </>
  );
}
