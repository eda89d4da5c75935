// SPDX-License-Identifier: Apache-2.0
// Forge.java LIBRARY: loads what forges the methods of this process, from within some (see forge.c).
public class Forge {
    static void nested(int depth, String library) {
        if (depth > 0) nested(depth - 1, library);
        else System.load(library);
    }
    public static void main(String[] args) {
        nested(500, args[0]);
    }
}
