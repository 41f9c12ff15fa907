// Judges histories of registers: are they linearizable? Reads JSON lines of operations from its standard input, prints
// one JSON line of verdicts, and ends with 0 if all is well, 1 if a register's history is impossible, 2 if it could not tell.
//
// An operation: {"client", "key", "op", "value", "expected", "found", "call", "return"}, times in nanoseconds of one
// monotonic clock; without "return" nobody knows whether and when it happened.
//
//	read    found the value that it says
//	write   left value
//	cas     if the register had expected, left value; found is 1 if so, else 0, and absent if nobody knows
//	swap    found a value and left another, at once
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const patience = 60 * time.Second

type operation struct {
	Client   int    `json:"client"`
	Key      uint64 `json:"key"`
	Op       string `json:"op"`
	Value    uint64 `json:"value"`
	Expected uint64 `json:"expected"`
	Found    *int64 `json:"found"`
	Call     int64  `json:"call"`
	Return   *int64 `json:"return"`
}

var register = porcupine.Model{
	Init: func() interface{} { return uint64(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		value, op := state.(uint64), input.(operation)
		found := func(actual uint64) bool { return op.Found == nil || uint64(*op.Found) == actual }
		switch op.Op {
		case "read":
			return found(value), value
		case "write":
			return true, op.Value
		case "swap":
			return found(value), op.Value
		case "cas":
			if value == op.Expected {
				return found(1), op.Value
			}
			return found(0), value
		}
		panic("unknown operation " + op.Op)
	},
}

func main() {
	byKey := map[uint64][]porcupine.Operation{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	count := 0
	for lines.Scan() {
		var op operation
		if err := json.Unmarshal(lines.Bytes(), &op); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		returned := int64(math.MaxInt64)
		if op.Return != nil {
			returned = *op.Return
		}
		byKey[op.Key] = append(byKey[op.Key], porcupine.Operation{
			ClientId: op.Client, Input: op, Call: op.Call, Output: nil, Return: returned,
		})
		count++
	}
	wrong, unknown := []uint64{}, []uint64{}
	for key, history := range byKey {
		switch porcupine.CheckOperationsTimeout(register, history, patience) {
		case porcupine.Illegal:
			wrong = append(wrong, key)
		case porcupine.Unknown:
			unknown = append(unknown, key)
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]interface{}{
		"operations": count, "registers": len(byKey), "wrong": wrong, "unknown": unknown,
	})
	if len(wrong) > 0 {
		os.Exit(1)
	}
	if len(unknown) > 0 {
		os.Exit(2)
	}
}
